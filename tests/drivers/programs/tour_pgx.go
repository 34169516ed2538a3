// Go with pgx v4
package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

var background = context.Background()

const consume = `select log_offset, coalesce(key, '-'), payload ->> 'text', body
	from pgq.consume(topic => $1, consumer_group => $2)`

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// lines reads all rows before the transaction goes on: a connection has one result at a time.
func lines(tx pgx.Tx) (found []string) {
	rows, err := tx.Query(background, consume, "orders", "billing")
	check(err)
	defer rows.Close()
	for rows.Next() {
		var offset int64
		var key string
		var text *string // a pointer, since it may be null
		var body []byte
		check(rows.Scan(&offset, &key, &text, &body))
		if text == nil {
			encoded := hex.EncodeToString(body)
			text = &encoded
		}
		found = append(found, fmt.Sprint(offset, " ", key, " ", *text))
	}
	check(rows.Err())
	return found
}

func main() {
	config, err := pgx.ParseConfig(os.Getenv("DATABASE_URL"))
	check(err)
	config.BuildStatementCache = nil // only behind a pooler in transaction mode
	config.PreferSimpleProtocol = true
	db, err := pgx.ConnectConfig(background, config)
	check(err)
	defer db.Close(background)
	for _, query := range []string{
		"select pgq.create_topic(topic => 'orders', partitions => 1)",
		"select pgq.create_group(topic => 'orders', consumer_group => 'billing')",
		"select pgq.create_queue(queue => 'mail')",
	} {
		_, err = db.Exec(background, query)
		check(err)
	}

	// Text with casts is right with each protocol of pgx: the simple one does not ask for types.
	publish := `select log_offset from pgq.publish(
		topic => $1, payload => $2::text::jsonb, key => $3, body => $4)`
	var offset int64
	text := `{"text": "Grüße, 東京 🐘"}`
	check(db.QueryRow(background, publish, "orders", text, "ada", nil).Scan(&offset))
	fmt.Printf("published: offset %d\n", offset)
	var first, last int64 // the batch is in one partition here: one row
	check(db.QueryRow(background, `select first_offset, last_offset
		from pgq.publish_batch(topic => $1,
			payloads => array(select jsonb_array_elements($2::text::jsonb)),
			keys => array(select jsonb_array_elements_text($3::text::jsonb)))`,
		"orders", `[{"text": "two"}, {"text": "three"}, {"text": "four"}]`, `["ada", null, "bob"]`,
	).Scan(&first, &last))
	fmt.Printf("batch: offsets %d to %d\n", first, last)
	check(db.QueryRow(background, publish, "orders", nil, nil, []byte{0x00, 0xff, 0x41}).Scan(&offset))
	fmt.Printf("bytes: offset %d\n", offset)

	tx, err := db.Begin(background)
	check(err)
	messages := lines(tx)
	check(tx.Rollback(background))
	fmt.Printf("rolled back: %d messages\n", len(messages))
	tx, err = db.Begin(background)
	check(err)
	messages = lines(tx)
	// what is written here, by tx, happens exactly once for each of these messages
	check(tx.Commit(background))
	fmt.Printf("committed: %d messages\n%s\n", len(messages), strings.Join(messages, "\n"))
	tx, err = db.Begin(background)
	check(err)
	fmt.Printf("left: %d messages\n", len(lines(tx)))
	check(tx.Commit(background))

	enqueue := `select pgq.enqueue(
		queue => $1, payload => $2::text::jsonb, delay => $3::text::interval)`
	_, err = db.Exec(background, enqueue, "mail", `{"to": "ada"}`, nil)
	check(err)
	_, err = db.Exec(background, enqueue, "mail", `{"to": "bob"}`, (2 * time.Hour).String())
	check(err)
	var job int64
	var attempt int
	var token, to string
	check(db.QueryRow(background, `select job_id, lease_token::text, attempt, payload ->> 'to'
		from pgq.claim_job(queue => $1)`, "mail").Scan(&job, &token, &attempt, &to))
	fmt.Printf("claimed: %s, attempt %d\n", to, attempt)
	for _, name := range []string{"ack", "stale ack"} {
		var done bool
		check(db.QueryRow(background, "select pgq.ack($1, $2::text::uuid)", job, token).Scan(&done))
		fmt.Printf("%s: %t\n", name, done)
	}

	err = db.QueryRow(background, publish, "nowhere", "{}", nil, nil).Scan(&offset)
	var failure *pgconn.PgError
	if !errors.As(err, &failure) || failure.Code != "MQ001" {
		log.Fatal(err)
	}
	fmt.Println("unknown topic:", failure.Code)
}
