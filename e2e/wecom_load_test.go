//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestWecomUsersAtOnce measures what 100 to 500 customers wait for who write at the same moment, over and over, while
// sync_msg is slow: over Kafka, with a handler that answers at once. It prints the figures, and holds them to their
// bars where PAWL_BARS says that the machine does nothing else.
func TestWecomUsersAtOnce(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("a minute of load; PAWL_SOAK=1 runs it")
	}
	const rounds, every, slow = 10, 2 * time.Second, 300 // ms
	in := newIncident(t, "")
	messages := kafkaURL(t)
	wecomSim(fmt.Sprintf("--fault sync_delay=%d", slow))(in)
	handler := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"replies":[{"msgtype":"text","text":{"content":"thanks"}}]}`))
	}))
	t.Cleanup(handler.Close)
	text := strings.Replace(string(read(t, in.dir+"/pawl.yaml")), "handler: {exec: sh ./answer.sh}",
		fmt.Sprintf("handler: {http: %q}, messages: {store: %q}", handler.URL, messages), 1)
	in.write("pawl.yaml", text)
	in.start()
	in.until("pawl wecom status", "wk-sim-1 running …")
	answered := 0.0
	for _, users := range []int{100, 300, 500} {
		before := in.scrape()
		for range rounds {
			began := time.Now()
			in.must(fmt.Sprintf(`curl -fsS $(cat sim.address)/control/message -d '{"user": "wm", "users": %d}'`, users))
			answered += float64(users)
			for in.scrape().values[`pawl_wecom_replies_total{class="",pipeline="kefu",state="sent"}`] < answered {
				if time.Since(began) > time.Minute {
					t.Fatalf("%d users are not answered within a minute", users)
				}
				time.Sleep(100 * time.Millisecond)
			}
			time.Sleep(max(0, every-time.Since(began)))
		}
		after := in.scrape()
		for _, f := range []struct {
			what, series string
			most         float64 // ms; 0: it has no bar
		}{
			{"callback", `pawl_wecom_callback_seconds_bucket{pipeline="kefu",le="X"}`, 50},
			{"produce", `pawl_wecom_store_seconds_bucket{pipeline="kefu",le="X"}`, 50},
			{"wait for a worker", `pawl_queue_wait_seconds_bucket{topic="qywx-chat-messages",le="X"}`, 0},
			{"handler", `pawl_wecom_handler_seconds_bucket{pipeline="kefu",le="X"}`, 0},
			{"processing", `pawl_attempt_duration_seconds_bucket{topic="qywx-chat-messages",le="X"}`, 100},
			{"stored to done", `pawl_delivery_seconds_bucket{topic="qywx-chat-messages",le="X"}`, 0},
		} {
			p50, p99 := quantile(f.series, .5, before, after), quantile(f.series, .99, before, after)
			t.Logf("%d users: %-18s p50 %6.1f ms  p99 %6.1f ms", users, f.what, 1000*p50, 1000*p99)
			if os.Getenv("PAWL_BARS") != "" && f.most > 0 && !(1000*p99 < f.most) {
				t.Errorf("%d users: the p99 of %s is %.1f ms", users, f.what, 1000*p99)
			}
		}
	}
}

// quantile estimates what histogram_quantile does, of what came between two scrapes. X in series is a bound.
func quantile(series string, q float64, before, after scrape) float64 {
	bound := regexp.MustCompile("^" + strings.Replace(regexp.QuoteMeta(series), "X", "([^\"]+)", 1) + "$")
	counts := map[float64]float64{}
	for name, n := range after.values {
		if m := bound.FindStringSubmatch(name); m != nil {
			le, err := strconv.ParseFloat(m[1], 64)
			if err == nil {
				counts[le] = n - before.values[name]
			}
		}
	}
	lower, below, rank := 0.0, 0.0, q*counts[math.Inf(1)]
	for _, le := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[le]; n >= rank && n > below {
			return lower + (le-lower)*(rank-below)/(n-below)
		} else {
			lower, below = le, n
		}
	}
	return math.NaN()
}
