// Go with database/sql and lib/pq
package main

import (
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/lib/pq"
)

const consume = `select log_offset, coalesce(key, '-'), payload ->> 'text', body
	from pgq.consume(topic => $1, consumer_group => $2)`

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// lines reads all rows before the transaction goes on: a connection has one result at a time.
func lines(tx *sql.Tx) (found []string) {
	rows, err := tx.Query(consume, "orders", "billing")
	check(err)
	defer rows.Close()
	for rows.Next() {
		var offset int64
		var key string
		var text sql.NullString
		var body []byte
		check(rows.Scan(&offset, &key, &text, &body))
		if !text.Valid {
			text.String = hex.EncodeToString(body)
		}
		found = append(found, fmt.Sprint(offset, " ", key, " ", text.String))
	}
	check(rows.Err())
	return found
}

func asJSON(value any) string { // a string: []byte would be sent as bytea
	encoded, err := json.Marshal(value)
	check(err)
	return string(encoded)
}

func main() {
	// binary_parameters=yes is needed only behind a pooler in transaction mode
	db, err := sql.Open("postgres", os.Getenv("DATABASE_URL")+"?sslmode=disable&binary_parameters=yes")
	check(err)
	defer db.Close()
	for _, query := range []string{
		"select pgq.create_topic(topic => 'orders', partitions => 1)",
		"select pgq.create_group(topic => 'orders', consumer_group => 'billing')",
		"select pgq.create_queue(queue => 'mail')",
	} {
		_, err = db.Exec(query)
		check(err)
	}

	var offset int64
	publish := "select log_offset from pgq.publish(topic => $1, payload => $2, key => $3, body => $4)"
	text := asJSON(map[string]string{"text": "Grüße, 東京 🐘"})
	check(db.QueryRow(publish, "orders", text, "ada", nil).Scan(&offset))
	fmt.Printf("published: offset %d\n", offset)
	var first, last int64 // the batch is in one partition here: one row
	check(db.QueryRow(`select first_offset, last_offset
		from pgq.publish_batch(topic => $1, payloads => $2, keys => $3)`, "orders",
		pq.Array([]string{`{"text": "two"}`, `{"text": "three"}`, `{"text": "four"}`}),
		pq.Array([]sql.NullString{{String: "ada", Valid: true}, {}, {String: "bob", Valid: true}}),
	).Scan(&first, &last))
	fmt.Printf("batch: offsets %d to %d\n", first, last)
	check(db.QueryRow(publish, "orders", nil, nil, []byte{0x00, 0xff, 0x41}).Scan(&offset))
	fmt.Printf("bytes: offset %d\n", offset)

	tx, err := db.Begin()
	check(err)
	messages := lines(tx)
	check(tx.Rollback())
	fmt.Printf("rolled back: %d messages\n", len(messages))
	tx, err = db.Begin()
	check(err)
	messages = lines(tx)
	// what is written here, by tx, happens exactly once for each of these messages
	check(tx.Commit())
	fmt.Printf("committed: %d messages\n%s\n", len(messages), strings.Join(messages, "\n"))
	tx, err = db.Begin()
	check(err)
	fmt.Printf("left: %d messages\n", len(lines(tx)))
	check(tx.Commit())

	enqueue := "select pgq.enqueue(queue => $1, payload => $2, delay => $3)"
	_, err = db.Exec(enqueue, "mail", `{"to": "ada"}`, nil)
	check(err)
	// String(): a time.Duration as it is would be read as so many seconds as it has nanoseconds
	_, err = db.Exec(enqueue, "mail", `{"to": "bob"}`, (2 * time.Hour).String())
	check(err)
	var job int64
	var attempt int
	var token, to string
	check(db.QueryRow(`select job_id, lease_token, attempt, payload ->> 'to'
		from pgq.claim_job(queue => $1)`, "mail").Scan(&job, &token, &attempt, &to))
	fmt.Printf("claimed: %s, attempt %d\n", to, attempt)
	for _, name := range []string{"ack", "stale ack"} {
		var done bool
		check(db.QueryRow("select pgq.ack($1, $2)", job, token).Scan(&done))
		fmt.Printf("%s: %t\n", name, done)
	}

	err = db.QueryRow(publish, "nowhere", "{}", nil, nil).Scan(&offset)
	var failure *pq.Error
	if !errors.As(err, &failure) || failure.Code != "MQ001" {
		log.Fatal(err)
	}
	fmt.Println("unknown topic:", failure.Code)
}
