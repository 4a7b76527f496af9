"""redis-py against the service, in both versions of the protocol. Arguments: a port without tokens and a port that requires tokens."""

import sys

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

# The client retries a wrong password several times, with a delay.
once = Retry(NoBackoff(), 0)
open_port, guarded_port = int(sys.argv[1]), int(sys.argv[2])


def check(condition, what):
    if not condition:
        sys.exit(f"redis-py: {what!r}")


for protocol in (2, 3):
    client = redis.Redis(port=open_port, protocol=protocol, client_name="worker", decode_responses=True)
    key = f"py{protocol}"
    check(client.ping() is True, "ping")
    check(client.client_getname() == "worker", client.client_getname())
    check(client.client_id() > 0, "client id")
    check(client.info()["role"] == "master", client.info())
    check("tg.check" in client.execute_command("COMMAND LIST"), "command list")

    allowed = client.execute_command("TG.CHECK", "api", key)
    check(allowed[:4] == [1, 3, 2, -1] and allowed[5] > 0, allowed)
    full = client.execute_command("TG.CHECK", "api", key, "COST", 2, "FULL")
    if protocol == 3:
        check(full["allowed"] is True and full["used"] == 3 and full["retry_after_ms"] is None, full)
    else:
        full = dict(zip(full[::2], full[1::2]))
        check(full["allowed"] == 1 and full["used"] == 3 and full["retry_after_ms"] is None, full)
    denied = client.execute_command("TG.CHECK", "api", key)
    check(denied[0] == 0 and denied[3] > 0, denied)
    check(client.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2], "throttle")
    check(client.execute_command("TG.RESET", "api", key) == 1, "reset")
    check(client.execute_command("TG.INSPECT", "api", key) is None, "inspect")

    pipeline = client.pipeline(transaction=False)
    for number in range(2000):
        pipeline.execute_command("TG.CHECK", "wide", key)
        pipeline.echo(str(number))
    replies = pipeline.execute()
    check([reply[2] for reply in replies[::2]] == list(range(999_999, 997_999, -1)), "a pipeline is in order")
    check(replies[1::2] == [str(number) for number in range(2000)], "so are its echoes")

    # By default, a pipeline is a transaction.
    transaction = client.pipeline()
    for _ in range(2000):
        transaction.execute_command("TG.CHECK", "wide", key)
    transaction.execute_command("TG.CHECK", "apo", key)
    replies = transaction.execute(raise_on_error=False)
    check([reply[2] for reply in replies[:2000]] == list(range(997_999, 995_999, -1)), "a transaction is in order")
    check(isinstance(replies[2000], redis.ResponseError), "an error of one command leaves the others")
    transaction.execute_command("TG.CHECK", "wide", key)
    transaction.execute_command("TG.CHECK", "wide")
    try:
        transaction.execute()
        check(False, "a malformed command is an error")
    except redis.ResponseError as error:
        check("wrong number of arguments" in str(error), error)
    check(client.execute_command("TG.PEEK", "wide", key)[2] == 996_000, "and then nothing is charged")

    try:
        client.execute_command("TG.CHECK", "apo", key)
        check(False, "an unknown policy is an error")
    except redis.ResponseError as error:
        check("did you mean `api`?" in str(error), error)

    try:
        redis.Redis(port=guarded_port, protocol=protocol, retry=once).execute_command("TG.CHECK", "api", key)
        check(False, "no token")
    except redis.AuthenticationError:
        pass
    try:
        redis.Redis(port=guarded_port, protocol=protocol, password="wrong", retry=once).ping()
        check(False, "a wrong token")
    except redis.AuthenticationError:
        pass
    user = redis.Redis(port=guarded_port, protocol=protocol, username="anyone", password="usage-token")
    check(user.execute_command("TG.CHECK", "api", key)[0] == 1, "a token")
    try:
        user.execute_command("TG.RESET", "api", key)
        check(False, "the weaker token")
    except redis.exceptions.NoPermissionError:
        pass
    admin = redis.Redis(port=guarded_port, protocol=protocol, password="admin-token")
    check(admin.execute_command("TG.RESET", "api", key) == 1, "the admin's token")

print("ok")
