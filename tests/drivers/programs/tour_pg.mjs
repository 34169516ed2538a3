// Node.js with pg
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });

// JSON goes in by JSON.stringify: an array given as it is becomes an array of PostgreSQL, and an
// empty one is stored as {}. An interval is text: { hours: 2 } would be read as 2 seconds.
const PUBLISH = `select * from pgq.publish(topic => $1, payload => $2, key => $3, body => $4)`;
const CONSUME = `select * from pgq.consume(topic => $1, consumer_group => $2)`;
const ENQUEUE = `select * from pgq.enqueue(queue => $1, payload => $2, delay => $3)`;
const group = ["orders", "billing"];

await pool.query(`select pgq.create_topic(topic => $1, partitions => $2)`, ["orders", 1]);
await pool.query(`select pgq.create_group(topic => $1, consumer_group => $2)`, group);
await pool.query(`select pgq.create_queue(queue => $1)`, ["mail"]);

const text = JSON.stringify({ text: "Grüße, 東京 🐘" });
const published = await pool.query(PUBLISH, ["orders", text, "ada", null]);
// bigint comes as a string, since it may be larger than a number can hold
console.log(`published: offset ${published.rows[0].log_offset}`);

const payloads = ["two", "three", "four"].map((text) => JSON.stringify({ text }));
const batch = await pool.query(
  `select * from pgq.publish_batch(topic => $1, payloads => $2, keys => $3)`,
  ["orders", payloads, ["ada", null, "bob"]],
);
for (const row of batch.rows) { // one for each partition
  console.log(`batch: offsets ${row.first_offset} to ${row.last_offset}`);
}

const bytes = await pool.query(PUBLISH, ["orders", null, null, Buffer.from([0x00, 0xff, 0x41])]);
console.log(`bytes: offset ${bytes.rows[0].log_offset}`);

// A transaction needs one client: pool.query("begin") would leave the rest outside of it.
async function transaction(work) {
  const client = await pool.connect();
  try {
    await client.query("begin");
    const result = await work(client);
    await client.query("commit");
    return result;
  } catch (error) {
    await client.query("rollback");
    throw error;
  } finally {
    client.release();
  }
}

let seen = 0;
await transaction(async (client) => {
  seen = (await client.query(CONSUME, group)).rows.length;
  throw new Error("changed my mind");
}).catch((error) => {
  if (error.message !== "changed my mind") throw error;
});
console.log(`rolled back: ${seen} messages`);

const messages = await transaction(async (client) => {
  const { rows } = await client.query(CONSUME, group);
  // what is written here, by client, happens exactly once for each of these messages
  return rows;
});
console.log(`committed: ${messages.length} messages`);
for (const { log_offset, key, payload, body } of messages) {
  console.log(`${log_offset} ${key ?? "-"} ${payload?.text ?? body.toString("hex")}`);
}
console.log(`left: ${(await pool.query(CONSUME, group)).rows.length} messages`);

await pool.query(ENQUEUE, ["mail", JSON.stringify({ to: "ada" }), null]);
await pool.query(ENQUEUE, ["mail", JSON.stringify({ to: "bob" }), "2 hours"]);
const claimed = await pool.query(`select * from pgq.claim_job(queue => $1)`, ["mail"]);
const job = claimed.rows[0];
console.log(`claimed: ${job.payload.to}, attempt ${job.attempt}`);
for (const name of ["ack", "stale ack"]) {
  const { rows } = await pool.query(`select pgq.ack($1, $2)`, [job.job_id, job.lease_token]);
  console.log(`${name}: ${rows[0].ack ? "true" : "false"}`);
}

try {
  await pool.query(PUBLISH, ["nowhere", "{}", null, null]);
} catch (error) {
  if (error.code !== "MQ001") throw error;
  console.log(`unknown topic: ${error.code}`);
}
await pool.end();
