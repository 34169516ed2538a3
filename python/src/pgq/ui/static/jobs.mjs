// The jobs of a queue: unfinished ones, dead letters, finished ones, and one alone.

import { useState } from "preact/hooks";
import { Ago, asking, count, html, instant, link, pretty, useRead } from "./lib.mjs";
import { Act, Await, Badge, Content, Folded, Preview, Section, Settings, Table } from "./parts.mjs";
import { Chosen, Filter, Matching, choice, filterOf } from "./many.mjs";
import { Head } from "./queues.mjs";

const STATES = ["ready", "leased", "delayed", "waiting", "expired"];
const STATE_KINDS = {
    dead: "bad", expired: "odd", leased: "good", failed: "bad", lost: "odd", rejected: "bad",
    finished: "good", acked: "good", cancelled: "odd", replaced: "odd",
};

const state = (name) => html`<${Badge} kind=${STATE_KINDS[name]}>${name}<//>`;

// A text in a list, of which so many lines are shown: the view of the job has all of it.
const cut = (name, kind, lines = "") => ({
    name, kind, spare: true, cell: (one) => one[name] && html`<span class="lines ${lines}">${one[name]}</span>`,
});

const CELLS = {
    job: { name: "job_id", title: "job", kind: "number", cell: (one) => html`
        <a href=${link("jobs", one.job_id)}>${one.job_id}</a>` },
    label: cut("label", "word"),
    key: cut("key", "word"),
    error: cut("last_error", "long", "two"),
    content: { name: "content", kind: "content", value: (one) => one.content.text,
        cell: (one) => html`<${Preview} of=${one.content} />` },
};

const many = (ids, one, more) => `${count(ids.length)} ${ids.length === 1 ? one : more}`;

// ---------------------------------------------------------------- unfinished jobs

const retryingChosen = (queue) => (ids) => ({
    title: `Retry ${many(ids, "job", "jobs")} of ${queue} now?`,
    text: "Those that wait for a time are due at once; their attempts stay as they are.",
    act: "retry_chosen", button: "Retry", given: () => ({ queue, job_ids: ids }),
});

const cancellingChosen = (queue) => (ids) => ({
    title: `Cancel ${many(ids, "job", "jobs")} of ${queue}?`,
    text: "Nobody gets them any more. One that a worker has got meanwhile stays.",
    act: "cancel_chosen", button: "Cancel the jobs", given: () => ({ queue, job_ids: ids }),
});

const time = (name, title) => ({
    name, title, spare: true, cell: (one) => html`<${Ago} at=${one[name]} />`,
});

export function Jobs({ queue, state: wanted, given }) {
    const filter = filterOf(given);
    const [chosen, setChosen] = useState(new Set());
    const [number, setNumber] = useState("");
    const seen = useRead("jobs", { queue, state: wanted, ...filter });
    const address = (name) => link("queues", queue, "jobs", ...(name ? [name] : []));
    const choose = (event) => {
        location.hash = asking(address(event.target.value), filter);
    };
    const when = wanted === "leased" ? "lease end" : wanted ? "due" : "due or lease end";
    return html`<${Head} queue=${queue} at="jobs" />
    <form class="choices" onSubmit=${(event) => {
        event.preventDefault();
        location.hash = link("jobs", number.trim());
    }}><label>job <input type="text" size="10" inputmode="numeric" pattern="\\s*[0-9]+\\s*" required
        value=${number} title="the id of a job" onInput=${(event) => setNumber(event.target.value)}
        /></label><button type="submit">Go to it</button></form>
    <${Filter} address=${address(wanted)} filter=${filter} when=${when}>
        <label>state <select onChange=${choose}>
            <option value="" selected=${!wanted}>any</option>
            ${STATES.map((one) => html`
                <option value=${one} selected=${one === wanted}>${one}</option>`)}
        </select></label>
    <//>
    <${Await} of=${seen}>${({ jobs }) => {
        const free = jobs.filter((one) => one.state !== "leased");
        return html`
            <p class="quiet">${Object.keys(filter).length > 0
                ? "Searched the newest 100,000 jobs of all queues; at most 50 are shown, the newest first."
                : "The first 50, in the order in which claims look at them."}</p>
            <${Chosen} rows=${free} chosen=${chosen} setChosen=${setChosen} acts=${[
                { title: "Retry now…", asked: retryingChosen(queue) },
                { title: "Cancel…", danger: true, asked: cancellingChosen(queue) },
            ]} />
            <${Matching} queue=${queue} filter=${filter} kinds=${["retry", "cancel"]} />
            <${Table} label="jobs" rows=${jobs} id=${(one) => one.job_id} nothing=${
                Object.keys(filter).length > 0 ? "no such jobs among them" : "no jobs"}
                columns=${[
                    choice(free, chosen, setChosen),
                    CELLS.job,
                    { name: "state", cell: (one) => state(one.state) },
                    { name: "priority", kind: "number" },
                    { name: "attempt", kind: "number" },
                    time("due_at", "due"), time("leased_until", "leased until"),
                    { name: "worker", kind: "word", spare: true, value: (one) => one.worker
                        ?? (one.state === "leased" ? "not known" : null) },
                    CELLS.label, CELLS.key, CELLS.error, CELLS.content,
                ]} />`;
    }}<//>`;
}

// ---------------------------------------------------------------- one job

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

function Attempts({ of }) {
    if (of == null) return null;
    return html`<${Section} title="Attempts that failed">
        <${Table} label="attempts" rows=${of} id=${(one) => `${one.ended_at} ${one.attempt}`}
            nothing="none is known" columns=${[
                { name: "attempt", kind: "number" },
                { name: "outcome", cell: (one) => state(one.outcome) },
                { name: "began_at", title: "began", cell: (one) => one.began_at && html`
                    <span class="time">${instant(one.began_at)}</span>` },
                { name: "ended_at", title: "ended", cell: (one) => html`
                    <span class="time">${instant(one.ended_at)}</span>` },
                { name: "worker", kind: "word" },
                { name: "error", kind: "long", cell: (one) => html`<${Folded} text=${one.error} />` },
            ]} />
    <//>`;
}

const ENDS = { ended: "It has ended; how is kept in queues with keep_results alone." };

function Ended({ of, attempts }) {
    return html`<p>${ENDS[of.state] ?? html`It has ended: ${state(of.state)}`}</p>
        ${of.ended_at && html`<${Settings} of=${{ ended_at: of.ended_at }} />`}
        ${of.state === "finished" && html`<${Section} title="Result">${of.result == null
            ? html`<p class="quiet">none</p>`
            : html`<pre tabindex="0">${pretty(of.result)}</pre>`}<//>`}
        <${Attempts} of=${attempts} />`;
}

const only = (worker) => html`
    <a href=${asking(link("workers"), { only: worker })}>${worker}</a>`;

// Who has it: claims do not store that, a heartbeat of a worker names its jobs.
function Holder({ worker, others }) {
    return html`<p>Worker: ${worker
        ? html`${only(worker.worker)}, as it said <${Ago} at=${worker.seen_at} />`
        : html`not known${others.length > 0 && html`; workers of this queue: ${
            others.map((one, at) => html`${at > 0 && ", "}${only(one)}`)}`}`}</p>`;
}

const retrying = (queue, job) => ({
    title: `Retry job ${job} now?`,
    text: "It is due at once, instead of at its time; its attempts stay as they are.",
    queue, act: "retry_job", button: "Retry", given: () => ({ job_id: job }),
});

const cancelling = (queue, job) => ({
    title: `Cancel job ${job}?`,
    text: "Nobody gets it any more; a worker that has it hears so at its next call.",
    queue, act: "cancel_job", button: "Cancel the job", danger: true, given: () => ({ job_id: job }),
});

export function Job({ job }) {
    const seen = useRead("job", { job_id: job });
    return html`<h1>Job ${job}</h1><${Await} of=${seen}>${({ content, headers, ...rest }) => {
        const {
            queue, state: at, last_error: error, progress, attempts, worker,
            queue_workers: workers, job_id: _, due_at: due, leased_until: leased, ...others
        } = rest;
        if (rest.ended) return html`<${Ended} of=${rest.ended} attempts=${attempts} />`;
        return html`
            <p>A job of queue <a href=${link("queues", queue)}>${queue}</a>, ${state(at)}</p>
            ${workers && html`<${Holder} worker=${worker} others=${workers} />`}
            <div class="actions">${at === "dead"
                ? html`<${Act} asked=${redriving(queue, job)}>Redrive…<//>
                    <${Act} asked=${removing(queue, job)}>Remove…<//>`
                : html`${at === "delayed" && html`
                    <${Act} asked=${retrying(queue, job)}>Retry now…<//>`}
                <${Act} asked=${cancelling(queue, job)}>Cancel…<//>`}
            </div>
            ${error && html`<${Section} title="Last error"><pre tabindex="0">${error}</pre><//>`}
            <${Attempts} of=${attempts} />
            ${progress && html`<${Section} title="Progress">
                <pre tabindex="0">${pretty(progress)}</pre><//>`}
            <${Section} title="Content"><${Content} of=${content} /><//>
            ${headers && html`<${Section} title="Headers">
                <pre tabindex="0">${pretty(headers)}</pre><//>`}
            <${Section} title="Figures"><${Settings} of=${{
                ...(leased && { leased_until: leased }), ...(due && { due }), ...others,
            }} /><//>`;
    }}<//>`;
}

// ---------------------------------------------------------------- dead letters

const redrivingChosen = (queue) => (ids) => ({
    title: `Put ${many(ids, "dead letter", "dead letters")} of ${queue} back?`,
    text: "They become jobs again, with all of their attempts.",
    act: "redrive_chosen", button: "Redrive", given: () => ({ queue, job_ids: ids }),
});

const removingChosen = (queue) => (ids) => ({
    title: `Remove ${many(ids, "dead letter", "dead letters")} of ${queue}?`,
    text: "They cannot be brought back.",
    act: "purge_chosen", button: "Remove", given: () => ({ queue, job_ids: ids }),
});

const redrivingMany = (queue) => ({
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
});

const removingAll = (queue) => ({
    title: `Remove all dead letters of ${queue}?`,
    text: "They cannot be brought back.",
    act: "purge_dead", button: "Remove all", danger: true, given: () => ({ queue }),
});

export function Dead({ queue, given }) {
    const filter = filterOf(given);
    const filtered = Object.keys(filter).length > 0;
    const [pages, setPages] = useState([{}]);
    const [chosen, setChosen] = useState(new Set());
    const seen = useRead("dead", { queue, ...filter, ...pages.at(-1) });
    return html`<${Head} queue=${queue} at="dead" />
    <${Filter} address=${link("queues", queue, "dead")} filter=${filter} when="died" />
    <${Await} of=${seen}>${({ letters, next, looked_at: looked }) => html`
            <div class="actions">
                ${!filtered && html`
                    <${Act} asked=${redrivingMany(queue)}>Redrive many…<//>
                    <${Act} asked=${removingAll(queue)}>Remove all…<//>`}
                <button type="button" disabled=${pages.length === 1}
                    onClick=${() => setPages(pages.slice(0, -1))}>Previous page</button>
                <button type="button" disabled=${next == null}
                    onClick=${() => setPages([...pages, next])}>Next page</button>
                ${filtered && html`<span class="quiet">${count(looked)} were looked at</span>`}
            </div>
            <${Chosen} rows=${letters} chosen=${chosen} setChosen=${setChosen} acts=${[
                { title: "Redrive chosen…", asked: redrivingChosen(queue) },
                { title: "Remove chosen…", danger: true, asked: removingChosen(queue) },
            ]} />
            <${Matching} queue=${queue} filter=${filter} kinds=${["redrive", "purge"]} />
            <${Table} label="dead letters" rows=${letters} id=${(one) => one.job_id}
                nothing=${filtered ? "no dead letters of this filter here" : "no dead letters"}
                columns=${[
                    choice(letters, chosen, setChosen),
                    CELLS.job,
                    { name: "acts", title: "", cell: (one) => html`<span class="acts">
                        <${Act} asked=${redriving(queue, one.job_id)}>Redrive…<//>
                        <${Act} asked=${removing(queue, one.job_id)}>Remove…<//>
                    </span>` },
                    { name: "died_at", title: "died",
                        cell: (one) => html`<${Ago} at=${one.died_at} />` },
                    { name: "attempt", title: "attempts", kind: "number" },
                    CELLS.error, CELLS.label,
                    { name: "key", kind: "word", spare: true, cell: (one) => html`
                        ${one.key && html`<span class="lines">${one.key}</span>`}${one.stops_key && html`
                        <${Badge} kind="odd">stops its key<//>`}` },
                    CELLS.content,
                ]} />`}<//>`;
}

export function Errors({ queue }) {
    const seen = useRead("errors", { queue });
    const letters = (one, since) => asking(link("queues", queue, "dead"), {
        error_contains: one.error, since,
    });
    return html`<${Head} queue=${queue} at="errors" />
    <${Await} of=${seen}>${({ errors, whole }) => html`
        <p class="quiet">Dead letters by the last line of their errors${
            whole ? "" : "; searched the newest 100,000 letters"}.</p>
        <${Table} label="errors" rows=${errors} id=${(one) => one.error} filter
            nothing="no dead letters" columns=${[
                { name: "error", kind: "long", cell: (one) => (one.error
                    ? html`<a class="lines two" href=${letters(one, whole ? "" : one.oldest_at)}>
                        ${one.error}</a>`
                    : html`<span class="quiet">no error</span>`) },
                { name: "dead_letters", kind: "number" },
                time("newest_at", "newest"), time("oldest_at", "oldest"),
            ]} />`}<//>`;
}

// ---------------------------------------------------------------- finished jobs

const SIZES = ["50", "200", "1000"];

export function Finished({ queue, size = "50" }) {
    const seen = useRead("finished", { queue, size });
    const choose = (event) => {
        location.hash = asking(link("queues", queue, "finished"), { size: event.target.value });
    };
    return html`<${Head} queue=${queue} at="finished" />
    <div class="choices"><label>at most <select onChange=${choose}>
        ${SIZES.map((one) => html`<option value=${one} selected=${one === size}>${one}</option>`)}
    </select></label></div>
    <${Await} of=${seen}>${({ jobs, archives }) => html`
        <p class="quiet">The newest first, as far as the end of the archive has them; older ones are
            in the view archived_jobs.${!archives && html` <strong>This queue keeps no finished jobs but
            those of archive_job: its setting archive is off.</strong>`}</p>
        <${Table} label="finished jobs" rows=${jobs} id=${(one) => `${one.job_id} ${one.ended_at}`}
            nothing="no finished jobs at the end of the archive"
            columns=${[
                CELLS.job,
                { name: "outcome", kind: "word", cell: (one) => state(one.outcome) },
                { name: "attempt", title: "attempts", kind: "number" },
                { name: "ended_at", title: "ended",
                    cell: (one) => html`<${Ago} at=${one.ended_at} />` },
                cut("result", "word"),
                CELLS.label, CELLS.key, CELLS.error, CELLS.content,
            ]} />`}<//>`;
}
