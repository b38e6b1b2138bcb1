package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/meter"
)

const (
	perCommit = 20 // changes in a transaction of latency
	every     = 20 * time.Millisecond
)

// latency inserts at a steady rate, and searches all the time for what was committed last.
func latency(ctx context.Context, s *settings, name string) error {
	rate := s.rate
	if rate == 0 {
		return fmt.Errorf("there is no rate: measure it too, or name one with -rate")
	}
	d, err := newDatabase(ctx, s, name)
	if err != nil {
		return err
	}
	defer d.close()
	u, err := d.up(ctx, s)
	if err != nil {
		return err
	}
	defer u.remove(ctx)
	n := int(rate*float64(s.seconds)) / perCommit
	committed := make(chan time.Time, n) // of transaction i
	failed := make(chan error, 1)
	go func() {
		began := time.Now()
		for i := range n {
			time.Sleep(time.Until(began.Add(time.Duration(float64(i*perCommit) / rate * float64(time.Second)))))
			if err := d.insert(ctx, i*perCommit, perCommit); err != nil {
				failed <- err
				return
			}
			committed <- time.Now()
		}
		failed <- nil
	}()
	waits, err := watch(ctx, u, n, committed)
	if err == nil {
		err = <-failed
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, u.Said())
	}
	slices.Sort(waits)
	at := func(p float64) float64 { return meter.Percentile(waits, p).Seconds() * 1000 }
	fmt.Printf("%s, commit to searchable at %.0f/s: p50 %.0f ms, p99 %.0f ms, most %.0f ms\n", name, rate,
		at(0.5), at(0.99),
		at(1))
	return nil
}

// watch searches for the last document of each of n transactions, and returns how long after its commit it was found.
func watch(ctx context.Context, u *upped, n int, committed <-chan time.Time) ([]time.Duration, error) {
	waits := make([]time.Duration, 0, n)
	at := map[int]time.Time{} // of transactions whose document was not found yet
	next := 0
	for end := time.Now().Add(5 * time.Minute); len(waits) < n; time.Sleep(every) {
		for more := true; more; {
			select {
			case t := <-committed:
				at[next*perCommit+perCommit-1] = t
				next++
			default:
				more = false
			}
		}
		if len(at) == 0 {
			continue
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("%d documents were not found", len(at))
		}
		wanted := make([]int, 0, len(at))
		for k := range at {
			wanted = append(wanted, k)
		}
		slices.Sort(wanted)
		found, err := find(ctx, u.at, wanted[:min(len(wanted), 1000)])
		if err != nil {
			return nil, err
		}
		for _, k := range found {
			waits = append(waits, time.Since(at[k]))
			delete(at, k)
		}
	}
	return waits, nil
}

// find returns which of these documents a search finds.
func find(ctx context.Context, at string, wanted []int) ([]int, error) {
	var answer struct {
		Hits struct {
			Hits []struct {
				Fields struct {
					N []int `json:"n"`
				} `json:"fields"`
			} `json:"hits"`
		} `json:"hits"`
	}
	query := []byte(`{"size":1000,"_source":false,"docvalue_fields":["n"],"query":{"terms":{"n":[`)
	for i, n := range wanted {
		if i > 0 {
			query = append(query, ',')
		}
		query = fmt.Append(query, n)
	}
	query = append(query, "]}}}"...)
	if err := ask(ctx, http.MethodPost, at+"/_search", "application/json", query, &answer); err != nil {
		return nil, err
	}
	found := make([]int, len(answer.Hits.Hits))
	for i, h := range answer.Hits.Hits {
		found[i] = h.Fields.N[0]
	}
	return found, nil
}
