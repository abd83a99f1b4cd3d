"""The one package that opens outbound connections.

A request goes through these files, in this order:

    sender       the way of a request, and its one deadline
    guard        where is it, and may it be dialled there?     resolver, line, nameservers, dns, system
    pool         routes and kept connections
    dialer       from addresses to a connection                dialing, proxy, tls, sessions
    connection   one request out, one response in              message, response
    smtp         the same way out for mails                    smtp_wire

What is dialled is always an address that was vetted, never a name. Every failure is a value (`troubles.Failure`) that
says whose fault it is.
"""

from hookfuse.transport.limits import Limits
from hookfuse.transport.proxy import Proxy
from hookfuse.transport.resolver import Answer, DnsResolver, Resolver
from hookfuse.transport.sender import HttpSender
from hookfuse.transport.smtp import SmtpMailer

__all__ = ["Answer", "DnsResolver", "HttpSender", "Limits", "Proxy", "Resolver", "SmtpMailer"]
