// Command ratelimited calls a service that serves three calls at once and refuses the others with 429. A limiter
// around the calls learns how many it takes. A refused call is no failure of the message, so it uses up no attempt:
// with two attempts for each message, all of them are served.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

const calls, takes = 60, 3

// service counts what it has served, and fails once per call besides.
type service struct {
	mu               sync.Mutex
	running, refused int
	seen, served     map[string]int
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Path
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == takes || s.refused < 2*takes { // the first ones meet a service that is busy with others
		s.refused++
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	if s.seen[id]++; s.seen[id] == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.running++
	s.mu.Unlock()
	time.Sleep(2 * time.Millisecond)
	s.mu.Lock()
	s.running--
	s.served[id]++
}

func call(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch err := fmt.Errorf("the service answered %s", resp.Status); resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusTooManyRequests:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return pawl.Throttled(err, max(time.Duration(seconds)*time.Second, 20*time.Millisecond))
	default:
		return pawl.OfKind("ServiceDown", err)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	ctx, peer := context.Background(), &service{seen: map[string]int{}, served: map[string]int{}}
	server := httptest.NewServer(peer)
	defer server.Close()
	s := memory.New(memory.Config{})
	for i := range calls {
		must(store.Send(ctx, s, pawl.Message{Topic: "calls", Body: strconv.AppendInt(nil, int64(i), 10)}))
	}
	limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "service", Adaptive: 16})
	must(err)
	handler := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		done, err := limit.Acquire(ctx, "")
		if err != nil {
			return err
		}
		err = call(ctx, server.URL+"/"+string(d.Body))
		done(err) // the limiter learns from what came of the call
		return err
	})
	matrix, err := policy.NewMatrixOf(nil, append(policy.Builtin(), policy.Rule{
		ID: "service", Match: policy.Match{Kind: "ServiceDown"}, MaxAttempts: 2,
		Backoff: policy.Backoff{Shape: policy.Exponential, Base: 10 * time.Millisecond, Max: time.Second},
	}))
	must(err)
	d, err := dispatch.New(s, dispatch.Config{
		Topics: []dispatch.Topic{{Name: "calls", Handler: handler, Concurrency: 16}}, Policy: matrix, UntilEmpty: true,
	})
	must(err)
	must(d.Run(ctx))
	for id, n := range peer.served {
		if n != 1 {
			log.Fatalf("call %s was served %d times", id, n)
		}
	}
	if len(peer.served) != calls || peer.refused == 0 {
		log.Fatalf("%d calls of %d were served, %d refused", len(peer.served), calls, peer.refused)
	}
	fmt.Printf("%d calls served once each\n", calls)
}
