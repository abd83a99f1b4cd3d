"""How requests find their node in a cluster, step by step and without one."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from hookfuse.errors import InvalidInput, StoreUnavailable
from hookfuse.stores.redis.cluster.bells import Ear, Ears
from hookfuse.stores.redis.cluster.journey import Errand, Leg, travel
from hookfuse.stores.redis.cluster.routes import Node, Routes
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.connect import Server
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.target import Cluster, read_target

A, B = Node("10.0.0.1", 6379), Node("10.0.0.2", 6379)
HALVES = [[0, 8191, [b"10.0.0.1", 6379, b"a"]], [8192, 16383, [b"10.0.0.2", 6379, b"b"], [b"10.0.0.3", 6379, b"c"]]]
OF_A, OF_B = ("GET", "{3}"), ("GET", "{1}")


@pytest.fixture
def routes() -> Routes:
    made = Routes([A])
    made.begin_reading()
    made.learn(HALVES, A)
    return made


def drive(routes: Routes, errands: list[Errand], *answers: Any) -> list[Leg]:
    """Make a journey on which the legs bring these answers; returns its legs."""
    journey = travel(routes, errands, seconds=5)
    legs, coming = [], iter(answers)
    try:
        leg = next(journey)
        while True:
            legs.append(leg)
            leg = journey.send(next(coming))
    except StopIteration:
        assert not list(coming), "all answers were asked for"
        return legs


def nodes_of(legs: list[Leg]) -> list[list[Node]]:
    return [[trip.node for trip in leg.trips] for leg in legs]


class TestRoutes:
    def test_primary(self, routes: Routes) -> None:
        """Each slot leads to the primary of its range, never to a replica."""
        assert [routes.primary(slot) for slot in (0, 8191, 8192, 16383)] == [A, A, B, B]

    def test_gap(self, routes: Routes) -> None:
        """A slot that nobody serves leads nowhere."""
        routes.learn(HALVES[1:], A)
        assert routes.primary(8191) is None

    @pytest.mark.parametrize("name", [b"", b"?", None])
    def test_without_a_name(self, routes: Routes, name: bytes | None) -> None:
        """A node that does not say where it is, is where it was asked."""
        routes.learn([[0, 16383, [name, 7000, b"a"]]], B)
        assert routes.primary(5) == Node(B.host, 7000)

    def test_remapped(self) -> None:
        """Addresses inside the cluster become those that a client's settings say."""
        routes = Routes([A], lambda address: ("proxy", address[1] + 1))
        routes.learn(HALVES, A)
        assert routes.primary(0) == Node("proxy", 6380)

    def test_read_anew(self, routes: Routes) -> None:
        """The slots are read at first and after a doubt, and not by everyone at once."""
        assert not routes.begin_reading(), "nothing is in doubt"
        routes.doubt()
        assert not routes.begin_reading(), "they were read just now"
        assert Routes([A]).begin_reading()


class TestTravel:
    def test_by_node(self, routes: Routes) -> None:
        """Requests of one node go together, and each gets its own reply."""
        errands = [Errand.raw(OF_A), Errand.raw(OF_B), Errand.raw(OF_A)]
        (leg,) = drive(routes, errands, [["1", "3"], ["2"]])
        assert nodes_of([leg]) == [[A, B]]
        assert [errand.result for errand in errands] == ["1", "2", "3"]

    def test_slots_are_read_first(self) -> None:
        """What is not known is asked of a seed, and of the next one when the first is away."""
        routes = Routes([A, B])
        errand = Errand.raw(OF_A)
        legs = drive(routes, [errand], [ConnectionError("away")], [[HALVES]], [["x"]])
        assert nodes_of(legs) == [[B], [A], [A]]
        assert [leg.trips[0].requests for leg in legs] == [[("CLUSTER", "SLOTS")], [("CLUSTER", "SLOTS")], [OF_A]]
        assert errand.result == "x"

    def test_nobody_is_there(self) -> None:
        """When no seed answers, that is the error."""
        journey = travel(Routes([A]), [Errand.raw(OF_A)], seconds=5)
        next(journey)
        with pytest.raises(ConnectionError, match="away"):
            journey.send([ConnectionError("away")])

    def test_moved(self, routes: Routes) -> None:
        """A request to the wrong node goes on to the right one, and the next goes there at once."""
        moved = redis.exceptions.MovedError(f"{Errand.raw(OF_A).slot} {B.host}:{B.port}")
        errand = Errand.raw(OF_A)
        assert nodes_of(drive(routes, [errand], [[moved]], [["x"]])) == [[A], [B]]
        assert errand.result == "x"
        assert nodes_of(drive(routes, [Errand.raw(OF_A)], [["y"]])) == [[B]]

    def test_asked_elsewhere(self, routes: Routes) -> None:
        """A request of a slot on the move is asked of its new node, this once."""
        elsewhere = redis.exceptions.AskError(f"{Errand.raw(OF_A).slot} {B.host}:{B.port}")
        errand = Errand.raw(OF_A)
        legs = drive(routes, [errand], [[elsewhere]], [[True, "x"]])
        assert legs[1].trips[0].node == B
        assert legs[1].trips[0].requests == [("ASKING",), OF_A]
        assert errand.result == "x"
        assert nodes_of(drive(routes, [Errand.raw(OF_A)], [["y"]])) == [[A]]

    def test_try_again(self, routes: Routes) -> None:
        """Keys that are on both sides of a move wait a moment, and are asked again."""
        errand = Errand.raw(OF_A)
        legs = drive(routes, [errand], [[redis.exceptions.TryAgainError("split")]], [["x"]])
        assert legs[0].pause == 0
        assert legs[1].pause > 0
        assert errand.result == "x"

    def test_no_time_left(self, routes: Routes) -> None:
        """A slot that moves for longer than the deadline makes the store unavailable."""
        errand = Errand.raw(OF_A)
        journey = travel(routes, [errand], seconds=0)
        next(journey)
        with pytest.raises(StopIteration):
            journey.send([[redis.exceptions.TryAgainError("split")]])
        with pytest.raises(StoreUnavailable, match="is being moved"):
            errand.value("running admit")

    def test_unknown_script(self, routes: Routes) -> None:
        """A script that the node does not know is sent with its source."""
        errand = Errand.call(Call("pulse", ["{3}"], ()), ())
        legs = drive(routes, [errand], [[redis.exceptions.NoScriptError("NOSCRIPT")]], [["x"]])
        assert [leg.trips[0].requests[0][0] for leg in legs] == ["EVALSHA", "EVAL"]
        assert errand.result == "x"

    def test_lost_node(self, routes: Routes) -> None:
        """What may have arrived is not sent again, the other nodes are not touched, and the lost one is left alone."""
        errands = [Errand.raw(OF_A), Errand.raw(OF_B)]
        drive(routes, errands, [redis.exceptions.TimeoutError("late"), ["x"]])
        with pytest.raises(StoreUnavailable, match="late"):
            errands[0].value("running record")
        assert errands[1].value("running record") == "x"
        routes.learn(HALVES, B)
        later = Errand.raw(OF_A)
        assert drive(routes, [later]) == []
        with pytest.raises(StoreUnavailable, match="late"):
            later.value("running record")


class TestEars:
    keys = Keys("hookfuse", 4)

    def test_one_for_each_primary(self, routes: Routes) -> None:
        """Every bell is heard once, where its shard is, and again elsewhere when it has moved."""
        ears = Ears(self.keys, routes)
        made = ears.missing()
        assert sorted(shard for ear in made for shard in ear.shards) == [0, 1, 2, 3]
        ears.open = {ear.node: ear for ear in made}
        assert ears.missing() == ears.surplus() == []
        routes.learn([[0, 16383, [b"10.0.0.2", 6379, b"b"]]], A)
        assert len(ears.surplus()) == 2
        for ear in ears.surplus():
            ears.lose(ear)
        assert ears.missing() == [], "not at once"

    def test_heard(self, routes: Routes) -> None:
        """A subscription counts as a ring, and a sign of life is told once."""
        ears = Ears(self.keys, routes)
        ear = Ear(A, frozenset({2, 3}), self.keys)
        ears.open = {A: ear}
        assert [words[0] for words in ear.to_send()] == ["SSUBSCRIBE", "SSUBSCRIBE", "PING"]
        assert ear.to_send() == []
        for push in (
            [b"ssubscribe", b"hookfuse:v1:{2}:bell", 1],
            [b"smessage", b"hookfuse:v1:{3}:bell", b""],
            [b"pong"],
        ):
            ear.hear(push)
        assert ears.collect() == (frozenset({2, 3}), (frozenset({2, 3}),))
        assert ears.collect() == (frozenset(), ())

    def test_bell_is_taken_away(self) -> None:
        """A node that no longer serves a shard says so, and is listened to no more."""
        ear = Ear(A, frozenset({2}), self.keys)
        with pytest.raises(redis.exceptions.ConnectionError, match="no longer serves"):
            ear.hear([b"sunsubscribe", b"hookfuse:v1:{2}:bell", 0])


class TestTarget:
    def test_cluster_url(self) -> None:
        """A cluster's URL may name several nodes, with one user and password for all."""
        target = read_target("rediss+cluster://user:p%40ss,word@one:7000,two,[::1]:7002/0?ssl_check_hostname=False")
        assert isinstance(target, Cluster)
        assert target.seeds == (Node("one", 7000), Node("two", 6379), Node("::1", 7002))
        assert target.connection == "SSLConnection"
        assert target.given["username"] == "user"
        assert target.given["password"] == "p@ss,word"

    def test_server_of_a_cluster(self) -> None:
        """Each node is dialled with the settings of all."""
        target = read_target("redis+cluster://:secret@one:7000")
        assert isinstance(target, Cluster)
        server = target.server(B)
        assert isinstance(server, Server)
        made: Any = server.client(0.1).connection_pool.make_connection()
        assert (made.host, made.port, made.password) == (B.host, B.port, "secret")

    @pytest.mark.parametrize("url", ["redis+cluster://one:port", "redis+cluster://:secret@one:7000,two:x"])
    def test_unreadable(self, url: str) -> None:
        """A URL that cannot be read is not repeated: it may hold a password."""
        with pytest.raises(InvalidInput, match=r"redis\+cluster://user:password@host") as caught:
            read_target(url)
        assert "secret" not in str(caught.value)

    def test_database(self) -> None:
        """A cluster has one database, and a URL that names another is refused."""
        with pytest.raises(InvalidInput, match="only database 0"):
            read_target("redis+cluster://one:7000/3")
