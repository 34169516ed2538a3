// Topics, the groups that read them, and their messages.

import { useState } from "preact/hooks";
import { Ago, bytes, count, html, instant, link, pretty, rate, useRead }
    from "./lib.mjs";
import {
    Act, Await, Badge, Content, FILTER, Figure, Figures, Folded, Past, Preview, Section, Settings, Table,
} from "./parts.mjs";

const partitionOf = (topic) => ({
    name: "partition", kind: "number", cell: (one) => html`
        <a href=${link("topics", topic, "messages", one.partition)}>${one.partition}</a>`,
});

const by = (rows, name) => new Map(rows.map((one) => [one[name], one]));
const sum = (rows, column) => rows.reduce((all, one) => all + Number(one[column]), 0);

export function Topics() {
    const topics = useRead("topics");
    const seen = useRead("overview");
    const figures = by(seen.data?.topics || [], "topic");
    return html`<h1>Topics</h1><${Await} of=${topics}>${(rows) => html`
        <${Table} label="topics" rows=${rows} id=${(one) => one.topic} filter nothing="no topics"
            columns=${[
                { name: "topic", kind: "word", cell: (one) => html`
                    <a href=${link("topics", one.topic)}>${one.topic}</a>
                    ${one.restricted && html` <${Badge}>restricted<//>`}
                    ${one.deferred && html` <${Badge}>deferred<//>`}` },
                { name: "partitions", kind: "number" },
                { name: "messages", kind: "number",
                    value: (one) => figures.get(one.topic)?.messages },
                { name: "published/s", kind: "number",
                    value: (one) => figures.get(one.topic)?.published_per_second,
                    cell: (one) => rate(figures.get(one.topic)?.published_per_second) },
                { name: "retention", value: (one) => one.retention ?? "for ever" },
                { name: "max_bytes", kind: "number",
                    cell: (one) => (one.max_bytes == null ? "no limit" : bytes(one.max_bytes)) },
            ]} />`}<//>`;
}

const publishing = (topic, partitions) => ({
    title: `Publish to ${topic}`,
    act: "publish",
    button: "Publish",
    given: (typed) => ({ ...typed, topic }),
    fields: [
        { name: "payload", title: "payload (JSON)", kind: "long", required: true, value: "{}" },
        { name: "key", title: "key", hint: "messages of one key keep their order" },
        { name: "headers", title: "headers (a JSON object)" },
        { name: "partition", title: "partition", kind: "number",
            hint: `0 to ${partitions - 1}; empty: as the key says` },
    ],
});

export function Topic({ topic }) {
    const seen = useRead("topic", { topic });
    const rates = useRead("overview");
    const groups = (rates.data?.groups || []).filter((one) => one.topic === topic);
    const lags = by(groups, "consumer_group");
    return html`<h1><a href=${link("topics")}>Topics</a> / ${topic}</h1>
    <${Await} of=${seen}>${({ settings, partitions, ...data }) => html`
        <div class="actions">
            <a class="button" href=${link("topics", topic, "messages")}>Browse messages</a>
            <${Act} asked=${publishing(topic, settings.partitions)}>Publish…<//>
            ${settings.deferred && html`<${Act} asked=${{
                title: `Give offsets to messages of ${topic}?`,
                text: "Those that are committed and have none yet get one, and can be read.",
                act: "assign_offsets", button: "Give offsets", given: () => ({ topic }),
            }}>Give offsets…<//>`}
        </div>
        <${Figures}>
            <${Figure} name="messages" value=${count(sum(partitions, "messages"))} />
            <${Figure} name="published in the last minute"
                value=${count(sum(partitions, "published_last_minute"))} />
            <${Figure} name="groups" value=${count(data.groups.length)} />
        <//>
        <${Section} title="Published per second">
            <${Past} label=${`messages published to ${topic} per second`} kind="topics" name=${topic}
                figures=${[["published_per_second", "published"]]} />
        <//>
        <${Section} title="Consumer groups">
            <${Table} label="consumer groups" rows=${data.groups} nothing="no groups"
                id=${(one) => one.consumer_group} filter
                columns=${[
                    { name: "consumer_group", title: "group", kind: "word", cell: (one) => html`
                        <a href=${link("groups", topic, one.consumer_group)}>
                            ${one.consumer_group}</a>` },
                    { name: "lag", kind: "number",
                        value: (one) => lags.get(one.consumer_group)?.lag },
                    { name: "consumed/s", kind: "number",
                        value: (one) => lags.get(one.consumer_group)?.consumed_per_second,
                        cell: (one) => rate(lags.get(one.consumer_group)?.consumed_per_second) },
                    { name: "oldest not consumed",
                        value: (one) => lags.get(one.consumer_group)?.oldest_published_at,
                        cell: (one) => html`
                            <${Ago} at=${lags.get(one.consumer_group)?.oldest_published_at} />` },
                    { name: "dead_letter_topic", kind: "word", spare: true },
                ]} />
        <//>
        <${Section} title="Partitions">
            <${Table} label="partitions" rows=${partitions} id=${(one) => one.partition}
                columns=${[
                    partitionOf(topic),
                    { name: "first_offset", kind: "number" },
                    { name: "last_offset", kind: "number" },
                    { name: "messages", kind: "number" },
                    { name: "published_last_minute", kind: "number" },
                ]} />
        <//>
        ${data.subscriptions.length > 0 && html`<${Section} title="Subscriptions">
            <${Table} label="subscriptions" rows=${data.subscriptions}
                id=${(one) => one.subscription}
                columns=${[
                    { name: "subscription", kind: "word" },
                    { name: "queue", kind: "word", cell: (one) => html`
                        <a href=${link("queues", one.queue)}>${one.queue}</a>` },
                    FILTER,
                    { name: "routing_key", kind: "word", spare: true },
                ]} />
        <//>`}
        <${Section} title="Settings"><${Settings} of=${settings} without=${["topic"]} /><//>`}<//>`;
}

// ---------------------------------------------------------------- groups

export function Groups() {
    const seen = useRead("overview");
    return html`<h1>Consumer groups</h1><${Await} of=${seen}>${({ groups }) => html`
        <${Table} label="consumer groups" rows=${groups} nothing="no groups" filter
            id=${(one) => `${one.topic}\n${one.consumer_group}`}
            columns=${[
                { name: "consumer_group", title: "group", kind: "word", cell: (one) => html`
                    <a href=${link("groups", one.topic, one.consumer_group)}>
                        ${one.consumer_group}</a>` },
                { name: "topic", kind: "word", cell: (one) => html`
                    <a href=${link("topics", one.topic)}>${one.topic}</a>` },
                { name: "lag", kind: "number" },
                { name: "consumed/s", kind: "number",
                    value: (one) => one.consumed_per_second,
                    cell: (one) => rate(one.consumed_per_second) },
                { name: "oldest not consumed", value: (one) => one.oldest_published_at,
                    cell: (one) => html`<${Ago} at=${one.oldest_published_at} />` },
            ]} />`}<//>`;
}

const seeking = (topic, group) => ({
    title: `Move ${group}`,
    text: "It reads again what lies behind its new place, or skips what lies before it.",
    act: "seek",
    button: "Move",
    danger: true,
    given: ({ where, partition, log_offset, published_at }) => ({
        topic, group, partition,
        ...(where === "offset" ? { log_offset }
            : where === "time" ? { published_at } : { start: where }),
    }),
    fields: [
        { name: "where", title: "to", kind: "choice", value: "earliest", choices: [
            ["earliest", "the oldest message"], ["latest", "behind the newest message"],
            ["time", "a time"], ["offset", "an offset"],
        ] },
        { name: "published_at", title: "time", required: true, hint: "2026-11-23T08:00, or 10m ago",
            when: (typed) => typed.where === "time" },
        { name: "log_offset", title: "offset to read next", kind: "number", required: true,
            when: (typed) => typed.where === "offset" },
        { name: "partition", title: "partition", kind: "number",
            hint: "empty: all of them, but an offset is one of a partition",
            required: (typed) => typed.where === "offset" },
    ],
});

export function Group({ topic, group }) {
    const seen = useRead("group", { topic, group });
    return html`<h1><a href=${link("groups")}>Consumer groups</a> / ${group}</h1>
    <${Await} of=${seen}>${({ settings, partitions }) => html`
        <p>It reads topic <a href=${link("topics", topic)}>${topic}</a>.</p>
        <div class="actions"><${Act} asked=${seeking(topic, group)}>Move…<//></div>
        <${Figures}>
            <${Figure} name="lag" unit="messages" value=${count(sum(partitions, "lag"))} />
            <${Figure} name="failing partitions" state=${
                partitions.some((one) => one.last_error) ? "bad" : ""
            } value=${count(partitions.filter((one) => one.last_error).length)} />
        <//>
        <${Section} title="Lag">
            <${Past} label=${`lag of ${group}`} kind="groups" topic=${topic} name=${group}
                figures=${[["lag", "lag", count]]} />
        <//>
        <${Section} title="Consumed per second">
            <${Past} label=${`messages that ${group} consumes per second`} kind="groups"
                topic=${topic} name=${group} figures=${[["consumed_per_second", "consumed"]]} />
        <//>
        <${Section} title="Partitions">
            <${Table} label="partitions" rows=${partitions} id=${(one) => one.partition}
                columns=${[
                    partitionOf(topic),
                    { name: "committed_offset", kind: "number" },
                    { name: "last_offset", kind: "number" },
                    { name: "lag", kind: "number" },
                    { name: "oldest not consumed", value: (one) => one.oldest_published_at,
                        cell: (one) => html`<${Ago} at=${one.oldest_published_at} />` },
                    { name: "leased_until",
                        cell: (one) => html`<${Ago} at=${one.leased_until} />` },
                    { name: "attempt", kind: "number" },
                    { name: "last_error", kind: "long",
                        cell: (one) => html`<${Folded} text=${one.last_error} />` },
                ]} />
        <//>
        <${Section} title="Settings">
            <${Settings} of=${settings} without=${["topic", "consumer_group"]} />
        <//>`}<//>`;
}

// ---------------------------------------------------------------- messages

export function Messages({ topic, partition }) {
    const [place, setPlace] = useState({});
    const [key, setKey] = useState("");
    const [typed, setTyped] = useState({ key: "", where: "" });
    const wanted = { topic, partition, key, ...place };
    // a page that somebody has turned to stays as it is
    const seen = useRead("messages", wanted, { live: !place.before && !place.since && !place.at });
    const topics = useRead("topics", {}, { live: false });
    const partitions = topics.data?.find((one) => one.topic === topic)?.partitions ?? 0;
    const go = (event) => {
        event.preventDefault();
        const where = typed.where.trim();
        setKey(typed.key);
        if (where === "") setPlace({});
        else if (/^\d+$/.test(where)) {
            const first = partition == null ? 0 : Number(partition);
            const last = partition == null ? partitions - 1 : Number(partition);
            const all = [];
            for (let number = first; number <= last; number += 1) all.push(`${number}:${where}`);
            setPlace({ since: all.join(",") });
        } else setPlace({ at: where });
    };
    const choose = (event) => {
        setPlace({});
        location.hash = event.target.value === ""
            ? link("topics", topic, "messages")
            : link("topics", topic, "messages", event.target.value);
    };
    return html`<h1><a href=${link("topics")}>Topics</a> /${" "}
        <a href=${link("topics", topic)}>${topic}</a> / messages</h1>
    <form class="choices" onSubmit=${go}>
        <label>partition <select onChange=${choose}>
            <option value="" selected=${partition == null}>all</option>
            ${Array.from({ length: partitions }, (_, number) => html`
                <option value=${number} selected=${String(number) === partition}>${number}</option>`)}
        </select></label>
        <label>key <input type="text" value=${typed.key} size="16"
            onInput=${(event) => setTyped({ ...typed, key: event.target.value })} /></label>
        <label>from <input type="text" value=${typed.where} size="20"
            placeholder="offset, time, 10m ago" title="an offset, a time, or an age such as 10m ago"
            onInput=${(event) => setTyped({ ...typed, where: event.target.value })} /></label>
        <button type="submit" class="main">Show</button>
    </form>
    <${Await} of=${seen}>${(data) => html`
        <div class="actions">
            <button type="button" disabled=${data.newer == null}
                onClick=${() => setPlace({ since: data.newer })}>Newer</button>
            <button type="button" disabled=${data.older == null}
                onClick=${() => setPlace({ before: data.older })}>Older</button>
            <button type="button" disabled=${data.at_end}
                onClick=${() => setPlace({})}>Newest</button>
            <span class="quiet">${data.at_end ? "the newest first" : "newer ones first"}${
                key ? `; ${count(data.looked_at)} were looked at` : ""}</span>
        </div>
        <${Table} label="messages" rows=${data.messages} nothing="no messages here"
            id=${(one) => `${one.partition}:${one.log_offset}`}
            columns=${[
                { name: "offset", value: (one) => `${one.partition}:${one.log_offset}`,
                    cell: (one) => html`<a href=${
                        link("topics", topic, "messages", one.partition, one.log_offset)
                    }>${one.partition}:${one.log_offset}</a>` },
                { name: "published_at", title: "published",
                    cell: (one) => html`<span class="time">${instant(one.published_at)}</span>` },
                { name: "key", kind: "word", cell: (one) => one.key && html`
                    <span class="lines">${one.key}</span>` },
                { name: "content", kind: "content", value: (one) => one.content.text,
                    cell: (one) => html`<${Preview} of=${one.content} />` },
            ]} />`}<//>`;
}

export function Message({ topic, partition, offset }) {
    const seen = useRead("message", { topic, partition, log_offset: offset }, { live: false });
    const at = BigInt(/^\d+$/.test(offset) ? offset : 0);
    return html`<h1><a href=${link("topics", topic)}>${topic}</a> /${" "}
        <a href=${link("topics", topic, "messages", partition)}>partition ${partition}</a> /
        offset ${offset}</h1>
    <div class="actions">
        <a class="button" href=${link("topics", topic, "messages", partition, String(at - 1n))}
            rel="prev">Previous</a>
        <a class="button" href=${link("topics", topic, "messages", partition, String(at + 1n))}
            rel="next">Next</a>
    </div>
    <${Await} of=${seen}>${({ content, headers, ...rest }) => html`
        <${Settings} of=${{ published_at: rest.published_at, key: rest.key }} />
        ${headers && html`<${Section} title="Headers"><pre tabindex="0">${pretty(headers)}</pre><//>`}
        <${Section} title="Content"><${Content} of=${content} /><//>`}<//>`;
}
