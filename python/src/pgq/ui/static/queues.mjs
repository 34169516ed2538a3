// Queues.

import { Ago, count, html, link, rate, useRead } from "./lib.mjs";
import { Act, Await, Badge, Figure, Figures, Past, Section, Settings, Table } from "./parts.mjs";

const ESTIMATES = { "≈": "estimates", "≥": "lower bounds" };

export function Queues() {
    const seen = useRead("overview");
    return html`<h1>Queues</h1><${Await} of=${seen}>${({ queues }) => html`
        <${Table} label="queues" rows=${queues} id=${(one) => one.queue} filter nothing="no queues"
            columns=${[
                { name: "queue", kind: "word", cell: (one) => html`
                    <a href=${link("queues", one.queue)}>${one.queue}</a>
                    ${one.held_by && html` <${Badge} kind="odd">${one.held_by}<//>`}
                    ${one.estimated && html` <${Badge}>${ESTIMATES[one.estimated]}<//>`}` },
                { name: "ready", kind: "number" },
                { name: "leased", kind: "number" },
                { name: "delayed", kind: "number" },
                { name: "waiting", kind: "number" },
                { name: "dead", kind: "number", cell: (one) => html`
                    <a class=${one.dead ? "bad" : ""} href=${link("queues", one.queue, "dead")}>
                        ${count(one.dead)}</a>` },
                { name: "finished/s", kind: "number",
                    value: (one) => one.finished_per_second,
                    cell: (one) => rate(one.finished_per_second) },
                { name: "oldest ready", value: (one) => one.oldest_ready_at,
                    cell: (one) => html`<${Ago} at=${one.oldest_ready_at} />` },
            ]} />`}<//>`;
}

const enqueueing = (queue) => ({
    title: `Enqueue to ${queue}`,
    act: "enqueue",
    button: "Enqueue",
    given: (typed) => ({ ...typed, queue }),
    fields: [
        { name: "payload", title: "payload (JSON)", kind: "long", required: true, value: "{}" },
        { name: "delay", title: "delay", hint: "90s, 2h; empty: that of the queue" },
        { name: "priority", title: "priority", kind: "number", hint: "a higher one goes first; 0" },
        { name: "key", title: "key" },
        { name: "headers", title: "headers (a JSON object)" },
    ],
});

function Tabs({ queue, at }) {
    const tabs = [["Figures"], ["Jobs", "jobs"], ["Dead letters", "dead"],
        ["Errors", "errors"], ["Finished", "finished"]];
    return html`<nav class="tabs" aria-label=${`queue ${queue}`}>${tabs.map(([title, ...rest]) => html`
        <a href=${link("queues", queue, ...rest)}
            aria-current=${rest[0] === at ? "page" : undefined}>${title}</a>`)}</nav>`;
}

export function Head({ queue, at }) {
    return html`<h1><a href=${link("queues")}>Queues</a> / ${queue}</h1>
        <${Tabs} queue=${queue} at=${at} />`;
}

export function Queue({ queue }) {
    const seen = useRead("queue", { queue });
    return html`<${Head} queue=${queue} />
    <${Await} of=${seen}>${({ settings, stats, estimated, ...data }) => html`
        <div class="actions">
            <${Act} asked=${enqueueing(queue)}>Enqueue…<//>
            ${settings.paused
                ? html`<${Act} asked=${{
                    title: `Resume ${queue}?`, text: "Workers get its jobs again.",
                    act: "resume_queue", button: "Resume", given: () => ({ queue }),
                }}>Resume…<//>`
                : html`<${Act} asked=${{
                    title: `Pause ${queue}?`,
                    text: "Nobody gets a job of it until it is resumed; leases that run go on.",
                    act: "pause_queue", button: "Pause", given: () => ({ queue }),
                }}>Pause…<//>`}
            <${Act} asked=${{
                title: `Remove all jobs of ${queue}?`,
                text: `${count(stats.ready + stats.leased + stats.delayed + stats.waiting
                    + stats.expired)} unfinished jobs and ${count(stats.dead)} dead letters are
                    removed, and cannot be brought back.`,
                act: "purge_queue", button: "Remove all", danger: true, given: () => ({ queue }),
            }}>Purge…<//>
            ${stats.held_by && html`<${Badge} kind="odd">claims get nothing: ${stats.held_by}<//>`}
            ${stats.is_full && html`<${Badge} kind="bad">full<//>`}
        </div>
        <${Figures}>
            <${Figure} name="ready" value=${count(stats.ready)}
                href=${link("queues", queue, "jobs", "ready")} />
            <${Figure} name="leased" value=${count(stats.leased)}
                href=${link("queues", queue, "jobs", "leased")} />
            <${Figure} name="delayed" value=${count(stats.delayed)}
                href=${link("queues", queue, "jobs", "delayed")} />
            <${Figure} name="waiting" value=${count(stats.waiting)}
                href=${link("queues", queue, "jobs", "waiting")} />
            <${Figure} name="expired" value=${count(stats.expired)}
                href=${link("queues", queue, "jobs", "expired")} />
            <${Figure} name="dead letters" value=${count(stats.dead)} state=${stats.dead ? "bad" : ""}
                href=${link("queues", queue, "dead")} />
        <//>
        ${estimated && html`<p class="quiet">These are ${ESTIMATES[estimated]}: the jobs are too many to
            count.</p>`}
        <${Section} title="Jobs by state">
            <${Past} label=${`jobs of ${queue} by state`} kind="queues" name=${queue} figures=${[
                ["ready", "ready", count], ["leased", "leased", count],
                ["delayed", "delayed", count], ["waiting", "waiting", count],
                ["dead", "dead letters", count],
            ]} />
        <//>
        <${Section} title="Jobs finished per second">
            <${Past} label=${`jobs of ${queue} finished per second`} kind="queues" name=${queue}
                figures=${[["finished_per_second", "finished"]]} />
        <//>
        ${data.subscriptions.length > 0 && html`<${Section} title="Subscriptions that feed it">
            <${Table} label="subscriptions" rows=${data.subscriptions} id=${(one) => one.subscription}
                columns=${[
                    { name: "subscription", kind: "word" },
                    { name: "topic", kind: "word", cell: (one) => html`
                        <a href=${link("topics", one.topic)}>${one.topic}</a>` },
                ]} />
        <//>`}
        ${data.schedules.length > 0 && html`<${Section} title="Schedules that feed it">
            <ul>${data.schedules.map((one) => html`<li>${one.schedule}: <${Ago} at=${one.next_at} /></li>`)}
            </ul>
        <//>`}
        <${Section} title="Settings"><${Settings} of=${settings} without=${["queue"]} /><//>`}<//>`;
}
