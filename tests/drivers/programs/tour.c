/* libpq: cc tour.c -I"$(pg_config --includedir)" -lpq */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static PGconn *connection;

/* End the program where a statement failed. */
static PGresult *checked(PGresult *result) {
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        fprintf(stderr, "%s", PQresultErrorMessage(result));
        exit(1);
    }
    return result;
}

/* Run a query with text parameters; a null pointer is a null, and the server finds the types. */
static PGresult *run(const char *query, int count, const char *const *values) {
    return PQexecParams(connection, query, count, NULL, values, NULL, NULL, 0);
}

#define QUERY(query, ...)                                                                      \
    checked(run(query, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                 \
                (const char *[]){__VA_ARGS__}))

static const char *CONSUME =
    "select log_offset, coalesce(key, '-'), coalesce(payload ->> 'text', encode(body, 'hex'))"
    " from pgq.consume(topic => $1, consumer_group => $2)";

int main(void) {
    connection = PQconnectdb(getenv("DATABASE_URL"));
    if (PQstatus(connection) != CONNECTION_OK) {
        fprintf(stderr, "%s", PQerrorMessage(connection));
        return 1;
    }
    PQclear(QUERY("select pgq.create_topic(topic => $1, partitions => $2)", "orders", "1"));
    PQclear(QUERY("select pgq.create_group(topic => $1, consumer_group => $2)", "orders", "billing"));
    PQclear(QUERY("select pgq.create_queue(queue => $1)", "mail"));

    PGresult *rows = QUERY("select log_offset from pgq.publish(topic => $1, payload => $2, key => $3)",
                           "orders", "{\"text\": \"Grüße, 東京 🐘\"}", "ada");
    printf("published: offset %s\n", PQgetvalue(rows, 0, 0));
    PQclear(rows);
    /* an array is text as well: NULL without quotes is a null */
    rows = QUERY("select first_offset, last_offset from pgq.publish_batch(topic => $1, payloads => array("
                 "select jsonb_array_elements($2::jsonb)), keys => $3)", "orders",
                 "[{\"text\": \"two\"}, {\"text\": \"three\"}, {\"text\": \"four\"}]",
                 "{\"ada\",NULL,\"bob\"}");
    for (int i = 0; i < PQntuples(rows); i++) /* one row for each partition */
        printf("batch: offsets %s to %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1));
    PQclear(rows);
    /* Bytes go in format 1, with their length: as text they would end at the first NUL. */
    const char *values[] = {"orders", "\x00\xff" "A"};
    rows = checked(PQexecParams(connection,
        "select log_offset from pgq.publish(topic => $1, body => $2)",
        2, NULL, values, (int[]){0, 3}, (int[]){0, 1}, 0));
    printf("bytes: offset %s\n", PQgetvalue(rows, 0, 0));
    PQclear(rows);

    PQclear(checked(PQexec(connection, "begin")));
    rows = QUERY(CONSUME, "orders", "billing");
    PQclear(checked(PQexec(connection, "rollback")));
    printf("rolled back: %d messages\n", PQntuples(rows));
    PQclear(rows);
    PQclear(checked(PQexec(connection, "begin")));
    rows = QUERY(CONSUME, "orders", "billing");
    /* what is written here happens exactly once for each of these messages */
    PQclear(checked(PQexec(connection, "commit")));
    printf("committed: %d messages\n", PQntuples(rows));
    for (int i = 0; i < PQntuples(rows); i++)
        printf("%s %s %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1), PQgetvalue(rows, i, 2));
    PQclear(rows);
    rows = QUERY(CONSUME, "orders", "billing");
    printf("left: %d messages\n", PQntuples(rows));
    PQclear(rows);

    const char *enqueue = "select pgq.enqueue(queue => $1, payload => $2, delay => $3)";
    PQclear(QUERY(enqueue, "mail", "{\"to\": \"ada\"}", NULL));
    PQclear(QUERY(enqueue, "mail", "{\"to\": \"bob\"}", "2 hours"));
    PGresult *job = QUERY("select job_id, lease_token, payload ->> 'to', attempt"
                          " from pgq.claim_job(queue => $1)", "mail");
    printf("claimed: %s, attempt %s\n", PQgetvalue(job, 0, 2), PQgetvalue(job, 0, 3));
    for (int i = 0; i < 2; i++) {
        /* a boolean is the text t or f: the pointer itself is never false */
        rows = QUERY("select pgq.ack($1, $2)", PQgetvalue(job, 0, 0), PQgetvalue(job, 0, 1));
        int done = strcmp(PQgetvalue(rows, 0, 0), "t") == 0;
        printf("%s: %s\n", i ? "stale ack" : "ack", done ? "true" : "false");
        PQclear(rows);
    }
    PQclear(job);

    rows = run("select pgq.publish(topic => $1, payload => $2)", 2, (const char *[]){"nowhere", "{}"});
    const char *code = PQresultErrorField(rows, PG_DIAG_SQLSTATE);
    if (code == NULL || strcmp(code, "MQ001") != 0) checked(rows);
    printf("unknown topic: %s\n", code);
    PQclear(rows);
    PQfinish(connection);
    return 0;
}
