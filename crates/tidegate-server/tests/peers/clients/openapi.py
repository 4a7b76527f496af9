"""A generated client checks keys with the usage token and resets a key with the admin token."""

import sys

import tidegate_client as tidegate

url = sys.argv[1]


def connected(token):
    return tidegate.ApiClient(tidegate.Configuration(host=url, access_token=token))


def request(key):
    return tidegate.CheckRequest(tidegate.ByPolicy(policy="narrow", key=tidegate.KeyText(key)))


with connected("usage-token") as api:
    decisions = tidegate.DecisionsApi(api)
    assert [decisions.check(request("alice")).remaining for _ in range(2)] == [1, 0]
    try:
        decisions.check(request("alice"))
        raise AssertionError("the third fits")
    except tidegate.ApiException as denied:
        assert denied.status == 429 and denied.data.reason == tidegate.ReasonName.LIMITED, denied
        assert denied.data.retry_after_ms > 0 and int(denied.headers["retry-after"]) > 0, denied
    assert decisions.check(request(["tenant", "bob"])).allowed
    assert decisions.forward("narrow").allowed
    assert "narrow" in [policy.name for policy in tidegate.StatusApi(api).policies().policies]

with connected("wrong-token") as api:
    try:
        tidegate.DecisionsApi(api).check(request("alice"))
        raise AssertionError("a wrong token is taken")
    except tidegate.ApiException as refused:
        assert refused.status == 401 and "token" in refused.data.error, refused

with connected("admin-token") as api:
    same = tidegate.ResetRequest(policy="narrow", key=tidegate.KeyText("alice"))
    assert tidegate.AdminApi(api).reset(same).reset

print("ok")
