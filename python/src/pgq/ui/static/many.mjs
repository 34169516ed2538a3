// Many jobs: the filter of a list, those that are chosen in it, and acts on all of a filter.

import { useEffect, useRef, useState } from "preact/hooks";
import { act, asking, count, html, read } from "./lib.mjs";
import { Act, Trouble } from "./parts.mjs";

const FIELDS = ["label", "key", "error_contains", "since", "before"];

// What of an address is a filter.
export const filterOf = (given) =>
    Object.fromEntries(FIELDS.filter((name) => given[name]).map((name) => [name, given[name]]));

// address: that of the list without its filter. when: the word for the times of its jobs.
export function Filter({ address, filter, when, children }) {
    const [typed, setTyped] = useState(filter);
    const go = (event) => {
        event.preventDefault();
        location.hash = asking(address, typed);
    };
    const field = (name, title, more) => html`<label>${title} <input type="text" size="14" ...${more}
        value=${typed[name] ?? ""} autocomplete="off"
        onInput=${(event) => setTyped({ ...typed, [name]: event.target.value })} /></label>`;
    const at = { placeholder: "time, 10m ago", title: "a time, or an age such as 10m ago" };
    return html`<form class="choices" onSubmit=${go}>
        ${children}
        ${field("label", "label", { type: "search" })}
        ${field("key", "key", { title: "in an ordered queue" })}
        ${field("error_contains", "error contains", { title: "as it is written; no pattern" })}
        ${field("since", `${when} since`, at)}
        ${field("before", `${when} before`, at)}
        <button type="submit" class="main">Show</button>
        ${Object.keys(filter).length > 0 && html`<a class="button" href=${address}>No filter</a>`}
    </form>`;
}

// ---------------------------------------------------------------- those that are chosen

// rows: those shown that can be chosen. acts: what asks for an act on the ids of those chosen.
export function Chosen({ rows, chosen, setChosen, acts }) {
    const ids = rows.map((one) => one.job_id).filter((id) => chosen.has(id));
    const all = ids.length > 0 && ids.length === rows.length;
    const turn = () => setChosen(new Set(all ? [] : rows.map((one) => one.job_id)));
    const done = () => setChosen(new Set());
    return html`<div class="actions" role="group" aria-label="chosen jobs">
        <label><input type="checkbox" checked=${all} indeterminate=${ids.length > 0 && !all}
            disabled=${rows.length === 0} onChange=${turn} /> all shown</label>
        <span class="quiet" aria-live="polite">${count(ids.length)} chosen</span>
        ${acts.map(({ title, danger, asked }) => html`<${Act} disabled=${ids.length === 0}
            asked=${{ ...asked(ids), danger, done }}>${title}<//>`)}
    </div>`;
}

// The column of check boxes; who may not be chosen has none.
export const choice = (rows, chosen, setChosen) => ({
    name: "choose",
    title: "",
    cell: ({ job_id: id }) => rows.some((one) => one.job_id === id) && html`
        <input type="checkbox" aria-label=${`choose job ${id}`} checked=${chosen.has(id)}
            onChange=${() => {
                const next = new Set(chosen);
                if (!next.delete(id)) next.add(id);
                setChosen(next);
            }} />`,
});

// ---------------------------------------------------------------- all of a filter

const WALKS = {
    cancel: {
        act: "cancel_page",
        verb: "Cancel", danger: true, things: ["job", "jobs"], done: ["is cancelled", "are cancelled"],
        text: "Jobs of every state; those that a worker has when it is their turn stay.",
    },
    retry: {
        act: "retry_page",
        verb: "Retry", things: ["job", "jobs"], done: ["is due now", "are due now"],
        text: "Those that wait for a time are due at once; their attempts stay as they are.",
    },
    redrive: {
        act: "redrive_page",
        verb: "Redrive", things: ["dead letter", "dead letters"],
        done: ["is a job again", "are jobs again"],
        text: "They become jobs again, with all of their attempts.",
    },
    purge: {
        act: "purge_page",
        verb: "Remove", danger: true, things: ["dead letter", "dead letters"],
        done: ["is removed", "are removed"], text: "They cannot be brought back.",
    },
};

const number = (many, [one, more]) => `${count(many)} ${many === 1 ? one : more}`;
const said = (many, { things, done }) => `${number(many, things)} ${done[many === 1 ? 0 : 1]}`;
const named = (filter) =>
    Object.entries(filter).map(([name, value]) => `${name.replaceAll("_", " ")} “${value}”`).join(", ");

// Buttons for all of a filter, which has to be one.
export function Matching({ queue, filter, kinds }) {
    const none = Object.keys(filter).length === 0;
    return html`<div class="actions" role="group" aria-label="all of this filter">
        <span class="quiet">${none ? "with a filter:" : "all of this filter:"}</span>
        ${kinds.map((walk) => html`<${Act} disabled=${none} asked=${{
            title: `${WALKS[walk].verb} all that match in ${queue}?`, walk, queue, filter,
            act: WALKS[walk].act, danger: WALKS[walk].danger,
        }}>${WALKS[walk].verb} all that match…<//>`)}
    </div>`;
}

const COUNTING = 5000;

// A dialog that counts what matches, asks, and then acts page by page until it is stopped.
export function Walking({ asked, onDone, onCancel }) {
    const { walk, queue, filter } = asked;
    const kind = WALKS[walk];
    const dialog = useRef(null);
    const left = useRef(null);
    const main = useRef(null);
    const stopped = useRef(false);
    // at: where the next page begins, null at the end; of: how many were counted, whole: all of them
    const [state, setState] = useState({ step: "count", of: 0, whole: true, taken: 0, at: null });
    const { step, of, whole, taken, problem } = state;

    const counting = async () => {
        const until = Date.now() + COUNTING;
        let now = { of: 0, at: 0, filter };
        while (now.at != null && !stopped.current && Date.now() < until) {
            const found = await read("matching", { act: walk, queue, ...now.filter, after_id: now.at });
            // ages are those of this moment, for all pages
            now = { of: now.of + found.taken, at: found.after_id, filter: filterOf(found.filter) };
            setState((old) => ({ ...old, of: now.of }));
        }
        setState({ ...now, step: "ask", whole: now.at == null, at: 0, taken: 0 });
    };
    const acting = async () => {
        let now = { ...state, step: "work", problem: null };
        setState(now);
        while (now.at != null && !stopped.current && !(whole && now.taken >= of)) {
            // no more than was said
            const max_jobs = whole ? of - now.taken : null;
            const { filter: exact, at: after_id } = now;
            const found = await act(kind.act, { queue, ...exact, after_id, max_jobs });
            now = { ...now, taken: now.taken + found.taken, at: found.after_id };
            setState(now);
        }
        if (stopped.current) return setState({ ...now, step: "stop" });
        return end(now.taken);
    };
    const end = (many) => {
        dialog.current?.close();
        onDone(said(many, kind));
    };
    const trying = (what) => {
        stopped.current = false;
        what().catch((found) => setState((old) => ({
            ...old, step: old.step === "count" ? "fail" : "stop", problem: found,
        })));
    };
    useEffect(() => {
        dialog.current.showModal();
        trying(counting);
        return () => { stopped.current = true; };
    }, []);
    // what can be done next has the focus
    useEffect(() => (step === "ask" && of > 0 ? main : left).current?.focus(), [step]);

    const stop = () => { stopped.current = true; };
    const close = () => (step === "work" ? stop() : taken > 0 ? end(taken) : dialog.current.close());
    const told = `${whole ? "" : "at least "}${number(of, kind.things)}`;
    return html`<dialog ref=${dialog} aria-labelledby="asked"
        onCancel=${(event) => { event.preventDefault(); close(); }}
        onClose=${() => { stop(); onCancel(); }}>
        <form onSubmit=${(event) => { event.preventDefault(); trying(acting); }}>
            <h2 id="asked">${asked.title}</h2>
            <p class="named">Queue ${queue}: ${named(filter)}</p>
            <p aria-live="polite">${{
                count: `Counting: ${number(of, kind.things)} until now.`,
                ask: of > 0 || !whole ? `These are ${told}. ${kind.text}` : "Nothing matches.",
                work: `${said(taken, kind)}, of ${told}.`,
                stop: `Stopped: ${said(taken, kind)}, of ${told}.`,
                fail: "Nothing was done.",
            }[step]}</p>
            ${step === "work" && html`<progress aria-label=${asked.title} max=${of} value=${taken} />`}
            <${Trouble} problem=${problem} />
            <div class="buttons">
                <button type="button" ref=${left} onClick=${close}>${
                    { work: "Stop", stop: "Close", fail: "Close" }[step] ?? "Cancel"}</button>
                ${(step === "ask" || step === "stop") && of > 0 && html`<button type="submit"
                    ref=${main} class=${kind.danger ? "danger main" : "main"}>${
                    step === "stop" ? "Go on" : `${kind.verb} ${told}`}</button>`}
            </div>
        </form>
    </dialog>`;
}
