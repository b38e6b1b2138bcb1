package kafka

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// perPartition is what people write: a goroutine for every partition, which
// carries out one record after the other and commits after each batch that was
// fetched.
type perPartition struct {
	mu     sync.Mutex
	failed error
}

func (p *perPartition) read(ctx context.Context, at *target, l *ledger) error {
	client, err := kgo.NewClient(append(at.options(), kgo.BlockRebalanceOnPoll())...)
	if err != nil {
		return err
	}
	defer client.CloseAllowingRebalance()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var wg sync.WaitGroup
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
				wg.Go(func() { p.consume(client, ch, at, l) })
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
	return p.failed
}

func (p *perPartition) consume(client *kgo.Client, ch <-chan []*kgo.Record, at *target, l *ledger) {
	for records := range ch {
		for _, r := range records {
			l.handle(r.Value, at.takes, at.wait)
		}
		if err := client.CommitRecords(context.Background(), records...); err != nil {
			p.mu.Lock()
			p.failed = err
			p.mu.Unlock()
		}
	}
}

func (*perPartition) settings() string {
	return "franz-go, a goroutine for each partition, a commit for each batch fetched, " + fetchSettings()
}
