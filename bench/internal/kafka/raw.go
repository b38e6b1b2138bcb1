package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readRaw polls and counts, and does nothing else: the ceiling.
func readRaw(ctx context.Context, at *target, l *ledger) error {
	client, err := kgo.NewClient(at.options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	for l.handled.Load() < l.want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			return err
		}
		if n := fetches.NumRecords(); n > 0 {
			l.count(n)
		}
	}
	return nil
}
