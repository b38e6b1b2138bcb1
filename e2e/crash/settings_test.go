//go:build linux

package crash

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettingsReachEveryProcess: what an operator sets while processes run, and a changed file of theirs, is in effect
// in each of them within ten seconds, and mostly within two.
func TestSettingsReachEveryProcess(t *testing.T) {
	besideUnless(t, strict(), 8)
	onEachStore(t, settingsReachAll)
	t.Run("Kafka", func(t *testing.T) { settingsReachAll(t, kafkaSite(t, "")) })
}

func settingsReachAll(t *testing.T, s *site) {
	t.Parallel()
	config := filepath.Join(s.dir, "pawl.yaml")
	write := func(rate int) {
		text := fmt.Sprintf("listen: 127.0.0.1:0\nlimits: {file: {rate: %d/s}, set: {rate: 1/s}}\n"+
			"topics: {a: {handler: exec, command: cat, limits: [file, set]}}\n", rate)
		if err := os.WriteFile(config+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(config+".new", config); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	var addresses []string
	for range 2 {
		f := launch(t, s.env(), nil, nil, "up", "--config", config)
		started := regexp.MustCompile(`message=started .*listen=(\S+)`)
		eventually(t, time.Minute, "a daemon starts", func() bool { return started.MatchString(f.tail(10_000)) })
		addresses = append(addresses, started.FindStringSubmatch(f.tail(10_000))[1])
	}
	reaches := func(limit string, rate int) time.Duration {
		began := time.Now()
		for _, at := range addresses {
			eventually(t, bound(10*time.Second), fmt.Sprintf("limit %s of %s is %d", limit, at, rate), func() bool {
				answer, err := http.Get("http://" + at + "/metrics")
				if err != nil {
					return false
				}
				defer func() { _ = answer.Body.Close() }()
				text, _ := io.ReadAll(answer.Body)
				line := fmt.Sprintf("pawl_limit_rate_per_second{limit=%q} %d\n", limit, rate)
				return strings.Contains(string(text), line)
			})
		}
		return time.Since(began)
	}
	var set, file []time.Duration
	for n := range 6 {
		s.must(t, "state", "put", "limits", "set", fmt.Sprintf(`{"rate":%d}`, n+2))
		set = append(set, reaches("set", n+2))
		if n%2 == 0 {
			write(n + 2)
			file = append(file, reaches("file", n+2))
		}
	}
	for what, lags := range map[string][]time.Duration{"set": set, "file": file} {
		slices.Sort(lags)
		t.Logf("%s: p50 %v, at most %v until it is in effect in both processes", what, lags[len(lags)/2],
			lags[len(lags)-1])
		if p50 := lags[len(lags)/2]; p50 > bound(2*time.Second) {
			t.Errorf("%s: p50 %v", what, p50)
		}
	}
}
