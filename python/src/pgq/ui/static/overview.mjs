// What goes on in the whole database, and what is wrong.

import { Ago, asking, count, html, length, link, rate, useRead } from "./lib.mjs";
import { Act, Await, Badge, Figure, Figures, Folded, Past, Section, Table } from "./parts.mjs";

const sum = (rows, column) => rows.reduce((all, one) => all + (Number(one[column]) || 0), 0);
const known = (rows, column) => rows.some((one) => one[column] != null);

function seconds(at) {
    return at == null ? 0 : (Date.now() - new Date(at).getTime()) / 1000;
}

export function Overview() {
    const seen = useRead("overview");
    return html`<h1>Overview</h1><${Await} of=${seen}>${(data) => {
        const { topics, groups, queues } = data;
        const dead = sum(queues, "dead");
        const sign = queues.find((one) => one.estimated)?.estimated;
        const about = sign ? `${sign} ` : "";
        const oldest = Math.max(0, ...groups.map((one) => seconds(one.oldest_published_at)));
        const rates = (rows, column) => (known(rows, column) ? rate(sum(rows, column)) : null);
        return html`
            <${Figures}>
                <${Figure} name="published" unit="/s" href=${link("topics")}
                    value=${rates(topics, "published_per_second")} />
                <${Figure} name="consumed" unit="/s" href=${link("groups")}
                    value=${rates(groups, "consumed_per_second")} />
                <${Figure} name="lag" unit="messages" href=${link("groups")}
                    value=${count(sum(groups, "lag"))} />
                <${Figure} name="oldest unread" value=${oldest ? length(oldest) : "–"}
                    href=${link("groups")} />
                <${Figure} name="finished" unit="/s" href=${link("queues")}
                    value=${rates(queues, "finished_per_second")} />
                <${Figure} name="ready jobs" href=${link("queues")}
                    value=${about + count(sum(queues, "ready"))} />
                <${Figure} name="leased jobs" href=${link("queues")}
                    value=${about + count(sum(queues, "leased"))} />
                <${Figure} name="dead letters" state=${dead ? "bad" : ""} value=${about + count(dead)}
                    href=${link("queues")} />
            <//>
            <${Health} short />
            <${Section} title="Messages and jobs per second">
                <${Past} label="messages and jobs per second" kind="all" name="all" figures=${[
                    ["published_per_second", "published"],
                    ["consumed_per_second", "consumed"],
                    ["finished_per_second", "jobs finished"],
                ]} />
            <//>
            <${Section} title="Waiting">
                <${Past} label="what waits" kind="all" name="all" figures=${[
                    ["lag", "lag of all groups", count],
                    ["ready", "ready jobs", count],
                    ["dead", "dead letters", count],
                ]} />
            <//>
            <p class="quiet">Looked at the database <${Ago} at=${data.moment} />; a look takes
            ${" "}${Math.round(data.took * 1000)} ms, and is taken every ${length(data.every)}.</p>`;
    }}<//>`;
}

const KINDS = { error: "bad", warning: "odd", note: "" };

// The views of what a finding is about.
function Places({ of: { check, about } }) {
    const { queue, job, topic, group, schedule, subscription, worker } = about;
    const only = (view, name) => asking(link(view), { only: name });
    const all = [
        [job && link("jobs", job), `job ${job}`],
        [queue && link("queues", queue, ...(check === "dead letters" ? ["dead"] : [])), queue],
        [group && link("groups", topic, group), group],
        [topic && link("topics", topic), topic],
        [schedule && only("schedules", schedule), schedule],
        [subscription && only("subscriptions", subscription), subscription],
        [worker && only("workers", worker), worker],
        [["access", "grants"].includes(check) && link("access"), "access"],
    ].filter(([place]) => place);
    return all.map(([place, name]) => html`<a class="place" href=${place}>${name}</a> `);
}

export function Health({ short = false }) {
    const seen = useRead("doctor");
    const table = html`<${Await} of=${seen}>${(data) => html`
        ${!short && html`<p class="quiet">Looked at ${data.checked.join(", ")}; the same as <code>pgq
            doctor</code>.</p>`}
        <${Table} label="findings" id=${(one) => `${one.check} ${one.what}`}
            nothing="nothing is wrong"
            rows=${short ? data.findings.filter((one) => one.severity !== "note") : data.findings}
            columns=${[
                { name: "severity", cell: (one) => html`
                    <${Badge} kind=${KINDS[one.severity]}>${one.severity}<//>` },
                { name: "what", kind: "long", cell: (one) => html`
                    <${Folded} text=${one.what} beginning />` },
                { name: "about", title: "where", kind: "word", value: (one) => one.check,
                    cell: (one) => html`<${Places} of=${one} />` },
                { name: "why", kind: "long" },
                { name: "fix", title: "what to do", kind: "long" },
            ]} />`}<//>`;
    if (short) return html`<${Section} title=${html`<a href=${link("health")}>Health</a>`}>${table}<//>`;
    return html`<h1>Health</h1>
        <div class="actions"><${Act} asked=${{
            title: "Clean up now?",
            text: `It does a bounded piece of the housekeeping, as cron should every minute: what has
                expired goes, and segments that are past their retention are emptied.`,
            act: "cleanup", button: "Clean up", given: () => ({}),
        }}>Clean up…<//></div>
        ${table}`;
}
