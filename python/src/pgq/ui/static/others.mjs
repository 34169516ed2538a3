// Subscriptions, schedules, workers and grants.

import { Ago, html, link, useRead } from "./lib.mjs";
import { Act, Await, Badge, FILTER, Folded, Table } from "./parts.mjs";

const topicOf = (one) =>
    one.topic && html`<a href=${link("topics", one.topic)}>${one.topic}</a>`;
const queueOf = (one) =>
    one.queue && html`<a href=${link("queues", one.queue)}>${one.queue}</a>`;

export function Subscriptions({ only = true }) {
    const seen = useRead("subscriptions");
    return html`<h1>Subscriptions</h1><${Await} of=${seen}>${(rows) => html`
        <${Table} label="subscriptions" rows=${rows} id=${(one) => one.subscription} filter=${only}
            nothing="no subscriptions"
            columns=${[
                { name: "subscription", kind: "word" },
                { name: "topic", kind: "word", cell: topicOf },
                { name: "queue", kind: "word", cell: queueOf },
                FILTER,
                { name: "routing_key", kind: "word", spare: true },
                { name: "created_at", title: "created",
                    cell: (one) => html`<${Ago} at=${one.created_at} />` },
                { name: "acts", title: "", cell: (one) => html`
                    <${Act} asked=${{
                        topic: one.topic, queue: one.queue,
                        title: `End subscription ${one.subscription}?`,
                        text: `${one.queue} gets no more jobs of ${one.topic}; those it has stay.`,
                        act: "unsubscribe", button: "End it", danger: true,
                        given: () => ({ subscription: one.subscription }),
                    }}>End…<//>` },
            ]} />`}<//>`;
}

export function Schedules({ only = true }) {
    const seen = useRead("schedules");
    const turning = (one) => ({
        topic: one.topic, queue: one.queue,
        title: `${one.paused ? "Resume" : "Pause"} schedule ${one.schedule}?`,
        text: one.paused ? "Its ticks are written again." : "No tick is written until it is resumed.",
        act: one.paused ? "resume_schedule" : "pause_schedule",
        button: one.paused ? "Resume" : "Pause",
        given: () => ({ schedule: one.schedule }),
    });
    return html`<h1>Schedules</h1><${Await} of=${seen}>${(rows) => html`
        <${Table} label="schedules" rows=${rows} id=${(one) => one.schedule} filter=${only}
            nothing="no schedules"
            columns=${[
                { name: "schedule", kind: "word", cell: (one) => html`${one.schedule}
                    ${one.paused && html` <${Badge} kind="odd">paused<//>`}` },
                { name: "writes to", kind: "word", value: (one) => one.topic ?? one.queue,
                    cell: (one) => topicOf(one) || queueOf(one) },
                { name: "when", value: (one) => one.cron ?? `every ${one.every}`,
                    cell: (one) => (one.cron ? html`<code>${one.cron}</code> ${one.time_zone}`
                        : `every ${one.every}`) },
                { name: "next_at", title: "next",
                    cell: (one) => html`<${Ago} at=${one.next_at} />` },
                { name: "last_at", title: "last",
                    cell: (one) => html`<${Ago} at=${one.last_at} />` },
                { name: "last_error", kind: "long", cell: (one) => one.last_error && html`
                    <span class="bad"><${Folded} text=${one.last_error} /></span>` },
                { name: "acts", title: "", cell: (one) => html`
                    <${Act} asked=${turning(one)}>${
                        one.paused ? "Resume…" : "Pause…"}<//>` },
            ]} />`}<//>`;
}

export function Workers({ only = true }) {
    const seen = useRead("workers");
    return html`<h1>Workers</h1><${Await} of=${seen}>${(rows) => html`
        <${Table} label="workers" rows=${rows} id=${(one) => `${one.role}\n${one.worker}`} filter=${only}
            nothing="no workers have told of themselves"
            columns=${[
                { name: "worker", kind: "word", cell: (one) => html`${one.worker}
                    ${one.stale && html` <${Badge} kind="bad">silent<//>`}` },
                { name: "role", kind: "word" },
                { name: "kind" },
                { name: "host", kind: "word", value: (one) => `${one.host ?? ""} ${one.pid ?? ""}` },
                { name: "sources", kind: "word", value: (one) => one.sources.join(", ") },
                { name: "running", kind: "number" },
                { name: "started_at", title: "started",
                    cell: (one) => html`<${Ago} at=${one.started_at} />` },
                { name: "last_seen_at", title: "last seen",
                    cell: (one) => html`<${Ago} at=${one.last_seen_at} />` },
                { name: "acts", title: "", cell: (one) => one.stale && html`
                    <${Act} asked=${{
                        title: `Delete ${one.worker}?`,
                        text: "It is shown no more, and no alert tells of it.",
                        act: "delete_worker", button: "Delete",
                        given: () => ({ worker: one.worker, role: one.role }),
                    }}>Delete…<//>` },
            ]} />`}<//>`;
}

export function Access() {
    const seen = useRead("access");
    return html`<h1>Access</h1>
    <p class="quiet">What roles may do with restricted topics and queues. Grants are given
        by${" "}<code>pgq.grant_access</code> or <code>pgq access grant</code>.</p>
    <${Await} of=${seen}>${(rows) => html`
        <${Table} label="grants" rows=${rows} filter nothing="no grants"
            id=${(one) => `${one.role}\n${one.topic}\n${one.queue}\n${one.access}`}
            columns=${[
                { name: "role", kind: "word" },
                { name: "topic", kind: "word", cell: (one) => (one.topic === "*" ? "all topics" : topicOf(one)) },
                { name: "queue", kind: "word", cell: (one) => (one.queue === "*" ? "all queues" : queueOf(one)) },
                { name: "access" },
                { name: "granted_by", kind: "word" },
                { name: "granted_at", title: "granted",
                    cell: (one) => html`<${Ago} at=${one.granted_at} />` },
            ]} />`}<//>`;
}
