package kafka

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

// readPerPartition is what people write: a goroutine for every partition, which
// carries out one record after the other and commits after each batch that was
// fetched.
func readPerPartition(ctx context.Context, at *target, l *ledger) error {
	client, err := kgo.NewClient(append(at.options(), kgo.BlockRebalanceOnPoll())...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	ctx, cancel := l.until(ctx)
	defer cancel()
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	partitions := map[int32]chan []*kgo.Record{}
	for {
		fetches := client.PollRecords(ctx, 10_000)
		if ctx.Err() != nil {
			break
		}
		if err := fetches.Err0(); err != nil {
			return err
		}
		fetches.EachPartition(func(f kgo.FetchTopicPartition) {
			ch := partitions[f.Partition]
			if ch == nil {
				ch = make(chan []*kgo.Record, 5)
				partitions[f.Partition] = ch
				wg.Go(func() {
					if err := consume(client, ch, at, l); err != nil {
						failed.Store(&err)
					}
				})
			}
			select {
			case ch <- f.Records:
			case <-ctx.Done():
			}
		})
		client.AllowRebalance()
	}
	for _, ch := range partitions {
		close(ch)
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

func consume(client *kgo.Client, ch <-chan []*kgo.Record, at *target, l *ledger) (failed error) {
	for records := range ch {
		for _, r := range records {
			l.handle(r.Value, at.takes, at.wait)
		}
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			failed = err
		}
	}
	return failed
}
