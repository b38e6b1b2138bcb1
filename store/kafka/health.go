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

func (h *health) note(about, what string) {
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
	about := fmt.Sprintf("%s/%d", topic, partition)
	if topic == "" {
		about = "group" // the group could not be joined
	}
	what := "cannot fetch: " + err.Error()
	if hint, code := h.hint(err); hint != "" && (topic == "" || errors.Is(code, store.ErrDenied)) {
		what += "; " + hint
	}
	h.note(about, what)
}

func (h *health) foreign(topic string, partition int32, err error) {
	h.note(fmt.Sprintf("%s/%d", topic, partition), "the metadata of the commit is not ours: "+err.Error()+
		"; finished work above the committed offset is repeated")
}

func (h *health) metadataTooLarge() {
	h.note("group",
		"the brokers take too little metadata with a commit (offset.metadata.max.bytes): after a crash more finished work is repeated")
}

func (h *health) missing(topic string) {
	h.note(topic,
		"the topic is not there, and none is made here (no_create): nothing is carried out until somebody runs `pawl kafka topics ensure "+
			topic+"`")
}

func (h *health) rewound(topic string, partition int32, from, next int64) {
	h.note(fmt.Sprintf("%s/%d", topic, partition),
		fmt.Sprintf("its log was cut or made again: it was read up to offset %d and goes on at %d", next, from))
}

func (h *health) expired(topic string, partition int32, lost uint64) {
	h.note(fmt.Sprintf("%s/%d", topic, partition),
		fmt.Sprintf("retention removed %d messages that were not finished: keep the topic for longer, or work faster",
			lost))
}

func (h *health) commitFailed(err error) {
	h.note("group", "cannot commit: "+err.Error()+"; what is finished since is repeated after a crash")
}

func (h *health) letterFailed(topic string, err error) { h.note(topic, err.Error()) }

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
