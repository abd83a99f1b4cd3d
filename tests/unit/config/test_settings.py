"""Settings: where they come from, what is refused, and what is never shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hookfuse import Policy, Streak, profiles
from hookfuse.config import SETTINGS, load, shown, variable
from hookfuse.errors import InvalidInput


def test_defaults() -> None:
    """Without any setting it is one process on a file in the data folder, on this machine's own address."""
    loaded = load({"HOME": "/nowhere"})
    settings = loaded.settings
    assert settings.embedded
    assert settings.database_url == f"sqlite://{settings.data_dir}/hookfuse.db"
    assert settings.key_file == settings.data_dir / "master.key"
    assert settings.host == "127.0.0.1"
    assert set(loaded.origins.values()) == {"default"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.port = 1  # type: ignore[misc]


def test_which_wins(tmp_path: Path) -> None:
    """What is typed wins over the environment, and that over the file; each setting knows where it came from."""
    file = tmp_path / "hookfuse.toml"
    file.write_text('port = 1\nhost = "10.0.0.1"\nworker_slots = 7\nallowed_networks = ["10.0.0.0/8"]\n')
    env = {"HOOKFUSE_CONFIG": str(file), "HOOKFUSE_PORT": "2", "HOOKFUSE_HOST": "10.0.0.2"}
    loaded = load(env, options={"port": 3, "data_dir": None})
    assert (loaded.settings.port, loaded.settings.host, loaded.settings.worker_slots) == (3, "10.0.0.2", 7)
    assert loaded.settings.allowed_networks == ("10.0.0.0/8",)
    assert loaded.origins["port"] == "--port"
    assert loaded.origins["host"] == "HOOKFUSE_HOST"
    assert loaded.origins["worker_slots"] == f"worker_slots in {file}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("port", "http"),
        ("port", "65536"),
        ("port", "-1"),
        ("port", "٣"),
        ("host", "not a host"),
        ("host", "1.2.3"),
        ("database_url", "mysql://host/db"),
        ("database_url", "sqlite://relative"),
        ("database_pooled", "perhaps"),
        ("database_listen_url", "sqlite:///tmp/x.db"),
        ("redis_url", "http://host"),
        ("allowed_networks", "10.0.0.1/8"),
        ("allowed_networks", "all"),
        ("forbidden_networks", "10.0.0.0/33"),
        ("proxy_url", "socks5://host:1"),
        ("policy", "sometimes"),
        ("policy", '{"window": -1}'),
        ("retry_delays", "30,soon"),
        ("retry_delays", "-1"),
        ("payload_limit", "0"),
        ("rate_limit", "none"),
        ("worker_slots", "1.5"),
        ("worker_lease", "nan"),
        ("request_timeout", "0"),
        ("retention_days", "-1"),
        ("log_format", "xml"),
        ("log_level", "loud"),
        ("data_dir", "a\0b"),
    ],
)
def test_refused(name: str, value: str) -> None:
    """A value that does not do is refused with a sentence that names the variable and says what would do."""
    with pytest.raises(InvalidInput) as refused:
        load({variable(name): value})
    assert str(refused.value).startswith(f"{variable(name)} must be ")


def test_refused_in_a_file(tmp_path: Path) -> None:
    """What is wrong in the file is named by its line's key and the variable; an unknown key is refused too."""
    file = tmp_path / "hookfuse.toml"
    file.write_text('port = "many"\n')
    with pytest.raises(InvalidInput, match=r"HOOKFUSE_PORT \(port in .*hookfuse.toml\) must be a whole number"):
        load({}, file=file)
    file.write_text("prot = 1\n")
    with pytest.raises(InvalidInput, match=r"prot in .* is no setting; perhaps port is meant"):
        load({}, file=file)
    file.write_text("port = = 1\n")
    with pytest.raises(InvalidInput, match="is not valid TOML"):
        load({}, file=file)
    with pytest.raises(InvalidInput, match=r"HOOKFUSE_CONFIG\) cannot be read: No such file"):
        load({"HOOKFUSE_CONFIG": str(tmp_path / "none")})


def test_misspelt_variable() -> None:
    """A variable that begins like a setting and is none is told, with the name that was meant if one is near."""
    loaded = load({"HOOKFUSE_PROT": "1", "HOOKFUSE_API_KEY": "x", "HOOKFUSE_TEST_REDIS_URL": "y"})
    assert loaded.unknown == ("HOOKFUSE_PROT is no setting; perhaps HOOKFUSE_PORT is meant.",)
    assert load({"HOOKFUSE_BOGUS": "1"}).unknown == ("HOOKFUSE_BOGUS is no setting; `hookfuse config` lists them.",)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("database_url", "postgresql://user:canary@host:5432/db"),
        ("database_url", "postgresql://host/db?user=me&password=canary"),
        ("database_url", "oracle://user:canary@host"),
        ("database_url", "postgresql://user:12/canary@host"),
        ("database_listen_url", "postgresql://user:canary@host:5432/db"),
        ("redis_url", "redis://:canary@host:6379/0"),
        ("redis_url", "unix:///run/redis.sock?password=canary"),
        ("redis_url", "redis://:12#canary@host"),
        ("redis_url", "canary"),
        ("proxy_url", "http://user:canary@host:3128"),
        ("proxy_url", "https://user:canary@host"),
    ],
)
def test_passwords_are_not_shown(name: str, value: str) -> None:
    """A password is shown neither with the settings nor with a refusal."""
    try:
        text = shown(load({variable(name): value}).settings, name)
    except InvalidInput as refused:
        text = str(refused)
    assert text
    assert "canary" not in text


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_shown_can_be_given(name: str) -> None:
    """The default of every setting, as it is shown, is read as the same value."""
    settings = load({}).settings
    text = shown(settings, name)
    if text:
        assert getattr(load({variable(name): text}).settings, name) == getattr(settings, name)


def test_policy() -> None:
    """The default policy is a profile by its name, or a policy as JSON, or a table of the file."""
    assert load({"HOOKFUSE_POLICY": "stoplight"}).settings.policy == profiles.stoplight()
    written = Policy(trip=Streak(3), window=30)
    assert load({"HOOKFUSE_POLICY": written.to_json()}).settings.policy == written


CHAT = "https://chat.example.com/hooks/very-secret"
SIGNING = "whsec_" + "QUFB" * 8


def test_notices() -> None:
    """Where notices go is read from the environment, and nothing that is a secret is ever shown."""
    found = load(
        {
            "HOOKFUSE_SMTP_URL": "smtp://user:pass-word@mail.example.com",
            "HOOKFUSE_NOTICE_EMAIL": "a@example.com, b@example.com",
            "HOOKFUSE_NOTICE_CHAT_URL": CHAT,
            "HOOKFUSE_NOTICE_WEBHOOK_URL": "https://example.com/ops",
            "HOOKFUSE_NOTICE_WEBHOOK_SECRET": SIGNING,
            "HOOKFUSE_NOTICE_EVENTS": "endpoint.disabled",
            "HOOKFUSE_NOTICE_QUIET": "60",
        }
    ).settings
    assert found.notice_email == ("a@example.com", "b@example.com")
    assert found.notice_events == ("endpoint.disabled",)
    everything = " ".join(shown(found, name) for name in SETTINGS)
    assert not any(secret in everything for secret in ("very-secret", SIGNING, "pass-word"))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"DATABASE_LISTEN_URL": "postgresql://me:hidden-one@host/db"}, "needs HOOKFUSE_DATABASE_POOLED beside it"),
        ({"NOTICE_EMAIL": "a@example.com"}, "HOOKFUSE_NOTICE_EMAIL needs HOOKFUSE_SMTP_URL"),
        ({"NOTICE_WEBHOOK_URL": "https://example.com"}, "needs HOOKFUSE_NOTICE_WEBHOOK_SECRET"),
        ({"NOTICE_EVENTS": "nothing"}, "HOOKFUSE_NOTICE_EVENTS must be some of endpoint.disabled"),
        ({"NOTICE_FROM": "x\r\nBcc: y@z"}, "HOOKFUSE_NOTICE_FROM must be an e-mail address"),
        ({"SMTP_URL": "mail://hidden-one@x"}, "HOOKFUSE_SMTP_URL must be smtp://"),
        ({"NOTICE_CHAT_URL": "ftp://hidden-one"}, "HOOKFUSE_NOTICE_CHAT_URL must be a URL"),
        ({"NOTICE_WEBHOOK_SECRET": "hidden-one"}, "HOOKFUSE_NOTICE_WEBHOOK_SECRET must be a signing secret"),
    ],
)
def test_notices_that_cannot_be(given: dict[str, str], says: str) -> None:
    """What does not do, or not alone, is told by its variable, and never repeated where it may be a secret."""
    with pytest.raises(InvalidInput) as refused:
        load({f"HOOKFUSE_{name}": value for name, value in given.items()})
    assert says in str(refused.value)
    assert "hidden-one" not in str(refused.value)
