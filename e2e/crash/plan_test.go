//go:build linux

package crash

import (
	"os"
	"testing"
	"time"
)

// plan says how large a chaos is.
type plan struct {
	site        *site
	dir         string // for journals
	topic       string
	nodes       int
	producers   int
	concurrency int
	lease       time.Duration
	work        time.Duration // of a delivery, on average
	parallel    int           // deliveries that a worker carries out at once; 0: 1 or 4, by chance
	odds        []string      // flags of a worker, for how often it does what; none: the usual ones
	messages    int           // of all producers
	keys        int           // of all producers
	chunk       int           // messages of one send
	duration    time.Duration
	calm        time.Duration // between two harms of a node, on average
}

// chunks is how many each producer sends.
func (p *plan) chunks() int { return p.messages / p.producers / p.chunk }

// newPlan is short, or as long as PAWL_SOAK asks for.
func newPlan(t *testing.T, s *site) *plan {
	t.Helper()
	p := &plan{
		site: s, dir: t.TempDir(), topic: "chaos", nodes: 4, producers: 2, concurrency: 8,
		lease: 2 * time.Second, work: 10 * time.Millisecond,
		messages: 5_000, keys: 500, chunk: 250, duration: 12 * time.Second, calm: 3 * time.Second,
	}
	switch soak := os.Getenv(envSoak); soak {
	case "":
	case "1":
		p.enlarge(3 * time.Minute)
	default:
		d, err := time.ParseDuration(soak)
		if err != nil {
			t.Fatalf("%s is %q; it is 1 or a duration", envSoak, soak)
		}
		p.enlarge(d)
	}
	return p
}

// enlarge keeps the rate: 100,000 messages in three minutes.
func (p *plan) enlarge(d time.Duration) {
	p.duration, p.chunk = d, 500
	p.messages = int(d.Seconds()*100_000/180) / (p.producers * p.chunk) * (p.producers * p.chunk)
}
