package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// health holds the current faults by subject. A fault that was not seen for a while is
// dropped.
type health struct {
	log    *slog.Logger
	hint   func(error) (hint string, code error)
	mu     sync.Mutex
	faults map[string]Fault
}

// Fault is something that an operator should look at.
type Fault struct {
	About string    // topic, topic/partition or group
	What  string    // in words
	Since time.Time // first seen
	Seen  time.Time // last seen
	Count int
}

func (h *health) note(about, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.faults == nil {
		h.faults = map[string]Fault{}
	}
	now := time.Now()
	f, ok := h.faults[about+what]
	if !ok || now.Sub(f.Seen) > faultAge {
		f = Fault{About: about, What: what, Since: now}
		h.log.Warn("kafka: "+what, "about", about) // logged once, however often it is seen
	}
	f.Seen = now
	f.Count++
	h.faults[about+what] = f
}

// faultAge is how long after its last sight a fault is over.
const faultAge = time.Minute

func (h *health) fetchFailed(topic string, partition int32, err error) {
	about := partitionName(topic, partition)
	if topic == "" {
		about = "group" // the group could not be joined
	}
	what := "cannot fetch: " + err.Error()
	if hint, code := h.hint(err); hint != "" && (topic == "" || errors.Is(code, store.ErrDenied)) {
		what += "; " + hint
	}
	h.note(about, "%s", what)
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// Faults returns the current faults.
func (s *Store) Faults() []Fault {
	s.health.mu.Lock()
	defer s.health.mu.Unlock()
	var fs []Fault
	for k, f := range s.health.faults {
		if time.Since(f.Seen) > faultAge {
			delete(s.health.faults, k)
			continue
		}
		fs = append(fs, f)
	}
	return fs
}
