// Queues, their jobs and dead letters.

import { useContext, useState } from "preact/hooks";
import { Ago, Surroundings, count, html, link, pretty, rate, useRead } from "./lib.mjs";
import { Act, Await, Badge, Content, Figure, Figures, Past, Preview, Section, Settings, Table }
    from "./parts.mjs";

export function Queues() {
    const seen = useRead("overview");
    return html`<h1>Queues</h1><${Await} of=${seen}>${({ queues }) => html`
        <${Table} label="queues" rows=${queues} id=${(one) => one.queue} filter nothing="no queues"
            columns=${[
                { name: "queue", cell: (one) => html`
                    <a href=${link("queues", one.queue)}>${one.queue}</a>
                    ${one.held_by && html` <${Badge} kind="odd">${one.held_by}<//>`}` },
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
    const tabs = [["Figures"], ["Jobs", "jobs"], ["Dead letters", "dead"]];
    return html`<nav class="tabs" aria-label=${`queue ${queue}`}>${tabs.map(([title, ...rest]) => html`
        <a href=${link("queues", queue, ...rest)}
            aria-current=${rest[0] === at ? "page" : undefined}>${title}</a>`)}</nav>`;
}

function Head({ queue, at }) {
    return html`<h1><a href=${link("queues")}>Queues</a> / ${queue}</h1>
        <${Tabs} queue=${queue} at=${at} />`;
}

export function Queue({ queue }) {
    const { ask } = useContext(Surroundings);
    const seen = useRead("queue", { queue });
    return html`<${Head} queue=${queue} />
    <${Await} of=${seen}>${({ settings, stats, subscriptions, schedules }) => html`
        <div class="actions">
            <${Act} onClick=${() => ask(enqueueing(queue))}>Enqueue…<//>
            ${settings.paused
                ? html`<${Act} onClick=${() => ask({
                    title: `Resume ${queue}?`, text: "Workers get its jobs again.",
                    act: "resume_queue", button: "Resume", given: () => ({ queue }),
                })}>Resume…<//>`
                : html`<${Act} onClick=${() => ask({
                    title: `Pause ${queue}?`,
                    text: "Nobody gets a job of it until it is resumed; leases that run go on.",
                    act: "pause_queue", button: "Pause", given: () => ({ queue }),
                })}>Pause…<//>`}
            <${Act} danger onClick=${() => ask({
                title: `Remove all jobs of ${queue}?`,
                text: `${count(stats.ready + stats.leased + stats.delayed + stats.waiting
                    + stats.expired)} unfinished jobs and ${count(stats.dead)} dead letters are
                    removed, and cannot be brought back.`,
                act: "purge_queue", button: "Remove all", danger: true, given: () => ({ queue }),
            })}>Purge…<//>
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
        <${Section} title="Jobs by state, during the last hour">
            <${Past} label=${`jobs of ${queue} by state`} kind="queues" name=${queue} figures=${[
                ["ready", "ready", count], ["leased", "leased", count],
                ["delayed", "delayed", count], ["waiting", "waiting", count],
                ["dead", "dead letters", count],
            ]} />
        <//>
        <${Section} title="Jobs finished per second, during the last hour">
            <${Past} label=${`jobs of ${queue} finished per second`} kind="queues" name=${queue}
                figures=${[["finished_per_second", "finished"]]} />
        <//>
        ${subscriptions.length > 0 && html`<${Section} title="Subscriptions that feed it">
            <${Table} label="subscriptions" rows=${subscriptions} id=${(one) => one.subscription}
                columns=${[
                    { name: "subscription" },
                    { name: "topic", cell: (one) => html`
                        <a href=${link("topics", one.topic)}>${one.topic}</a>` },
                ]} />
        <//>`}
        ${schedules.length > 0 && html`<${Section} title="Schedules that feed it">
            <ul>${schedules.map((one) => html`<li>${one.schedule}: <${Ago} at=${one.next_at} /></li>`)}
            </ul>
        <//>`}
        <${Section} title="Settings"><${Settings} of=${settings} without=${["queue"]} /><//>`}<//>`;
}

// ---------------------------------------------------------------- jobs

const STATES = ["ready", "leased", "delayed", "waiting", "expired"];
const STATE_KINDS = { dead: "bad", expired: "odd", leased: "good" };

export function Jobs({ queue, state }) {
    const seen = useRead("jobs", { queue, state });
    const choose = (event) => {
        location.hash = event.target.value
            ? link("queues", queue, "jobs", event.target.value)
            : link("queues", queue, "jobs");
    };
    return html`<${Head} queue=${queue} at="jobs" />
    <div class="choices"><label>state <select onChange=${choose}>
        <option value="" selected=${!state}>any</option>
        ${STATES.map((one) => html`<option value=${one} selected=${one === state}>${one}</option>`)}
    </select></label>
    <span class="quiet">the first 50, in the order in which claims look at them</span></div>
    <${Await} of=${seen}>${(rows) => html`
        <${Table} label="jobs" rows=${rows} id=${(one) => one.job_id} nothing="no jobs"
            columns=${[
                { name: "job_id", title: "job", kind: "number", cell: (one) => html`
                    <a href=${link("jobs", one.job_id)}>${one.job_id}</a>` },
                { name: "state", cell: (one) => html`
                    <${Badge} kind=${STATE_KINDS[one.state]}>${one.state}<//>` },
                { name: "priority", kind: "number" },
                { name: "attempt", kind: "number" },
                { name: "due", value: (one) => one.due_at ?? one.leased_until,
                    cell: (one) => html`<${Ago} at=${one.due_at ?? one.leased_until} />` },
                { name: "key" },
                { name: "last_error", kind: "long" },
                { name: "content", kind: "content", value: (one) => one.content.text,
                    cell: (one) => html`<${Preview} of=${one.content} />` },
            ]} />`}<//>`;
}

const redriving = (queue, job) => ({
    title: `Put dead letter ${job} back?`,
    text: `It becomes a job of ${queue} again, with all of its attempts.`,
    act: "redrive", button: "Redrive", given: () => ({ queue, job_id: job }),
});

const removing = (queue, job) => ({
    title: `Remove dead letter ${job}?`,
    text: "It cannot be brought back.",
    act: "purge_dead", button: "Remove", danger: true, given: () => ({ queue, job_id: job }),
});

export function Job({ job }) {
    const { ask } = useContext(Surroundings);
    const seen = useRead("job", { job_id: job });
    return html`<h1>Job ${job}</h1><${Await} of=${seen}>${({ content, headers, ...rest }) => {
        const { queue, state, last_error: error, progress, job_id: _, ...settings } = rest;
        const dead = state === "dead";
        return html`
            <p>A job of queue <a href=${link("queues", queue)}>${queue}</a>,${" "}
                <${Badge} kind=${STATE_KINDS[state]}>${state}<//></p>
            <div class="actions">${dead
                ? html`<${Act} onClick=${() => ask(redriving(queue, job))}>Redrive…<//>
                    <${Act} danger onClick=${() => ask(removing(queue, job))}>Remove…<//>`
                : html`${state === "delayed" && html`<${Act} onClick=${() => ask({
                    title: `Retry job ${job} now?`,
                    text: "It is due at once, instead of at its time; its attempts stay as they are.",
                    act: "retry_job", button: "Retry", given: () => ({ job_id: job }),
                })}>Retry now…<//>`}
                <${Act} danger onClick=${() => ask({
                    title: `Cancel job ${job}?`,
                    text: "Nobody gets it any more; a worker that has it hears so at its next call.",
                    act: "cancel_job", button: "Cancel the job", danger: true,
                    given: () => ({ job_id: job }),
                })}>Cancel…<//>`}
            </div>
            ${error && html`<${Section} title="Last error"><pre tabindex="0">${error}</pre><//>`}
            ${progress && html`<${Section} title="Progress">
                <pre tabindex="0">${pretty(progress)}</pre><//>`}
            <${Section} title="Content"><${Content} of=${content} /><//>
            ${headers && html`<${Section} title="Headers">
                <pre tabindex="0">${pretty(headers)}</pre><//>`}
            <${Section} title="Figures"><${Settings} of=${settings} /><//>`;
    }}<//>`;
}

// ---------------------------------------------------------------- dead letters

export function Dead({ queue }) {
    const { ask } = useContext(Surroundings);
    const [pages, setPages] = useState([{}]);
    const seen = useRead("dead", { queue, ...pages.at(-1) });
    return html`<${Head} queue=${queue} at="dead" />
    <${Await} of=${seen}>${({ letters, more }) => {
        const last = letters.at(-1);
        return html`
            <div class="actions">
                <${Act} onClick=${() => ask({
                    title: `Redrive dead letters of ${queue}`,
                    text: "Those that died first become jobs again.",
                    act: "redrive", button: "Redrive",
                    given: (typed) => ({ ...typed, queue, all_jobs: true }),
                    fields: [
                        { name: "max_jobs", title: "how many", kind: "number", value: "1000",
                            hint: "empty: all of them" },
                        { name: "per_second", title: "per second", kind: "number",
                            hint: "so many are due each second; empty: all at once" },
                    ],
                })}>Redrive many…<//>
                <${Act} danger onClick=${() => ask({
                    title: `Remove all dead letters of ${queue}?`,
                    text: "They cannot be brought back.",
                    act: "purge_dead", button: "Remove all", danger: true,
                    given: () => ({ queue }),
                })}>Remove all…<//>
                <button type="button" disabled=${pages.length === 1}
                    onClick=${() => setPages(pages.slice(0, -1))}>Previous page</button>
                <button type="button" disabled=${!more} onClick=${() => setPages([...pages, {
                    after_died_at: last.died_at, after_job_id: last.job_id,
                }])}>Next page</button>
            </div>
            <${Table} label="dead letters" rows=${letters} id=${(one) => one.job_id}
                nothing="no dead letters"
                columns=${[
                    { name: "job_id", title: "job", kind: "number", cell: (one) => html`
                        <a href=${link("jobs", one.job_id)}>${one.job_id}</a>` },
                    { name: "acts", title: "", cell: (one) => html`<span class="acts">
                        <${Act} onClick=${() => ask(redriving(queue, one.job_id))}>Redrive…<//>
                        <${Act} danger onClick=${() => ask(removing(queue, one.job_id))}>Remove…<//>
                    </span>` },
                    { name: "died_at", title: "died",
                        cell: (one) => html`<${Ago} at=${one.died_at} />` },
                    { name: "attempt", title: "attempts", kind: "number" },
                    { name: "last_error", kind: "long" },
                    { name: "key", cell: (one) => html`${one.key}${one.stops_key && html`
                        <${Badge} kind="odd">stops its key<//>`}` },
                    { name: "content", kind: "content", value: (one) => one.content.text,
                        cell: (one) => html`<${Preview} of=${one.content} />` },
                ]} />`;
    }}<//>`;
}
