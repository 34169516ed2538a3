


def test_what_goes_from_sight_with_a_segment_is_removed_too(
    connection: Session, clock: Clock, topic: str
) -> None:
    """It was stored without a retention, so no segment that is emptied takes it along."""
    connection.alter_topic(topic=topic, retention="1 hour")
    connection.publish(topic=topic, payload=6)
    connection.alter_topic(topic=topic, **FOREVER)
    connection.publish(topic=topic, payload=7)
    for _ in range(4):
        clock.advance("1 hour")
        clean(connection)
    [place] = connection.list_offsets(topic=topic)
    assert (place.first_offset, place.last_offset) == (7, 7)
    assert (_stored(connection), _notes(connection)) == (1, 0)
