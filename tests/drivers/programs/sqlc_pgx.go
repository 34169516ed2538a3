// Go with the functions that sqlc writes
package main

import (
	"broker"
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v4"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	background := context.Background()
	db, err := pgx.Connect(background, os.Getenv("DATABASE_URL"))
	check(err)
	defer db.Close(background)

	offset, err := broker.New(db).Publish(background, broker.PublishParams{
		Topic: "orders", Payload: `{"text": "one"}`, Key: sql.NullString{String: "ada", Valid: true},
	})
	check(err)
	fmt.Printf("published: offset %d\n", offset)

	tx, err := db.Begin(background)
	check(err)
	messages, err := broker.New(tx).Consume(background, broker.ConsumeParams{
		Topic: "orders", ConsumerGroup: "billing",
	})
	check(err)
	for _, message := range messages {
		fmt.Println("consumed:", message.LogOffset.Int64, message.Key.String, message.Payload.String)
	}
	check(tx.Commit(background))

	jobs, err := broker.New(db).ClaimJobs(background, broker.ClaimJobsParams{Queue: "mail", MaxJobs: 10})
	check(err)
	for _, job := range jobs {
		acked, err := broker.New(db).Ack(background, broker.AckParams{
			JobID: job.JobID.Int64, LeaseToken: job.LeaseToken.String,
		})
		check(err)
		fmt.Println("job:", job.Payload.String, acked)
	}
}
