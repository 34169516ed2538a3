"""Subscriptions by the client."""

from __future__ import annotations

import pytest

from pgq import AlreadyExists, Client, UnknownSubscription, UnknownTopic


def test_a_subscription(mail: Client) -> None:
    mail.admin.create_topic("parcels")
    wanted = {"status": ["processed", "shipped"]}
    made = mail.admin.subscribe("s", "parcels", "mail", filter=wanted, routing_key="parcels.#")
    assert (made.subscription, made.topic, made.queue) == ("s", "parcels", "mail")
    assert (made.filter, made.routing_key) == (wanted, "parcels.#")
    assert mail.admin.subscribe("s", "parcels", "mail", filter=wanted) == made
    assert mail.admin.list_subscriptions() == [made]
    for status in ("new", "shipped"):
        headers = {"status": status, "routing_key": "parcels.eu"}
        mail.publish("parcels", {"n": 1}, headers=headers)
    (job,) = mail.claim_job("mail", max_jobs=5)
    assert (job.payload, job.headers) == ({"n": 1}, headers)
    mail.admin.unsubscribe("s")
    assert mail.admin.list_subscriptions() == []


def test_errors(mail: Client) -> None:
    mail.admin.create_topic("parcels")
    mail.admin.subscribe("s", "parcels", "mail")
    with pytest.raises(AlreadyExists):
        mail.admin.subscribe("s", "parcels", "mail", routing_key="a")
    with pytest.raises(AlreadyExists):
        mail.admin.subscribe("other", "parcels", "mail")
    with pytest.raises(UnknownTopic):
        mail.admin.subscribe("other", "none", "mail")
    with pytest.raises(UnknownSubscription):
        mail.admin.unsubscribe("none")
