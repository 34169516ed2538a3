// Node.js with postgres (postgres.js)
import postgres from "postgres";

// prepare: false is needed only behind a pooler in transaction mode
const sql = postgres(process.env.DATABASE_URL, { max: 2, prepare: false });

await sql`select pgq.create_topic(topic => ${"orders"}, partitions => ${1})`;
await sql`select pgq.create_group(topic => ${"orders"}, consumer_group => ${"billing"})`;
await sql`select pgq.create_queue(queue => ${"mail"})`;

// JSON is the object itself. JSON.stringify would store one long JSON string; what is text
// already is written ${text}::text::jsonb.
const [published] = await sql`
  select * from pgq.publish(
    topic => ${"orders"}, payload => ${sql.json({ text: "Grüße, 東京 🐘" })}, key => ${"ada"}
  )`;
// bigint comes as a string, since it may be larger than a number can hold
console.log(`published: offset ${published.log_offset}`);

// Lists with null go in as JSON, and are made arrays there: a JSON null is a null key.
const payloads = ["two", "three", "four"].map((text) => ({ text }));
const batch = await sql`
  select * from pgq.publish_batch(
    topic => ${"orders"},
    payloads => array(select jsonb_array_elements(${sql.json(payloads)}::jsonb)),
    keys => array(select jsonb_array_elements_text(${sql.json(["ada", null, "bob"])}::jsonb))
  )`;
for (const row of batch) { // one for each partition
  console.log(`batch: offsets ${row.first_offset} to ${row.last_offset}`);
}

const body = Buffer.from([0x00, 0xff, 0x41]);
const [bytes] = await sql`select * from pgq.publish(topic => ${"orders"}, body => ${body})`;
console.log(`bytes: offset ${bytes.log_offset}`);

// Within sql.begin use its own sql: the outer one is another connection.
const consume = (sql) => sql`
  select * from pgq.consume(topic => ${"orders"}, consumer_group => ${"billing"})`;

let seen = 0;
await sql
  .begin(async (sql) => {
    seen = (await consume(sql)).length;
    throw new Error("changed my mind");
  })
  .catch((error) => {
    if (error.message !== "changed my mind") throw error;
  });
console.log(`rolled back: ${seen} messages`);

const messages = await sql.begin(async (sql) => {
  // what is written here, by this sql, happens exactly once for each of these messages
  return await consume(sql);
});
console.log(`committed: ${messages.length} messages`);
for (const { log_offset, key, payload, body } of messages) {
  console.log(`${log_offset} ${key ?? "-"} ${payload?.text ?? body.toString("hex")}`);
}
console.log(`left: ${(await consume(sql)).length} messages`);

const enqueue = (payload, delay) => sql`
  select * from pgq.enqueue(
    queue => ${"mail"}, payload => ${sql.json(payload)}, delay => ${delay}::text::interval
  )`;
await enqueue({ to: "ada" }, null);
await enqueue({ to: "bob" }, "2 hours");
const [job] = await sql`select * from pgq.claim_job(queue => ${"mail"})`;
console.log(`claimed: ${job.payload.to}, attempt ${job.attempt}`);
for (const name of ["ack", "stale ack"]) {
  const [{ ack }] = await sql`select pgq.ack(${job.job_id}, ${job.lease_token})`;
  console.log(`${name}: ${ack ? "true" : "false"}`);
}

try {
  await sql`select * from pgq.publish(topic => ${"nowhere"}, payload => ${sql.json({})})`;
} catch (error) {
  if (error.code !== "MQ001") throw error;
  console.log(`unknown topic: ${error.code}`);
}
await sql.end();
