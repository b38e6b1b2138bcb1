package kafka

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Fit implements [store.Fitter]: it refuses messages with features that a log lacks,
// and those that the client will never send. A record that is only just too large is
// not noticed here: the client decides about its overhead, and the brokers about the
// limit of the topic.
func (s *Store) Fit(m *pawl.Message) error {
	bad := func(code, err error, hint string) error {
		return &store.Error{Op: "append", Code: code, Err: err, Hint: hint}
	}
	switch size := m.Size(); {
	case m.Delay > 0:
		return bad(store.ErrUnsupported, errors.New("a delay: a log is read in its order"),
			"send it to a store that keeps delays, such as sqlite:FILE")
	case m.Unique.Key != "":
		return bad(store.ErrUnsupported, errors.New("a unique key: the broker compares nothing"),
			"send it to a store that keeps unique keys, such as sqlite:FILE")
	case size > int(s.cfg.Produce.BatchBytes):
		err := fmt.Errorf("%w: %d bytes; batch_bytes is %d", kerr.MessageTooLarge, size, s.cfg.Produce.BatchBytes)
		hint, code := s.codeOf(err)
		return bad(code, err, hint)
	}
	return s.free("append", m.Topic)
}

// Owner tells whether this store keeps data of its own in a topic, and for which topic:
// the one whose dead letters it holds, or none for the topic of the state.
func (s *Store) Owner(topic string) (of string, own bool) {
	if topic == s.cfg.StateTopic {
		return "", true
	}
	return s.cfg.deadHome(topic)
}

// free refuses a topic that belongs to the store itself. A message in it would never be
// listed or carried out.
func (s *Store) free(op, topic string) error {
	of, own := s.Owner(topic)
	switch {
	case !own:
		return nil
	case topic == s.cfg.StateTopic:
		return &store.Error{
			Op: op, Code: store.ErrInvalid, Err: fmt.Errorf("topic %s holds the state of this store, no messages",
				topic),
			Hint: "use another topic; state_topic in the URL names the one of the state",
		}
	default:
		return &store.Error{
			Op: op, Code: store.ErrInvalid, Err: fmt.Errorf("topic %s holds the dead letters of %s, no messages",
				topic, of),
			Hint: fmt.Sprintf(
				"use a topic whose name does not end with %s; dead_suffix and dead_names in the URL name such topics otherwise",
				s.cfg.DeadSuffix),
		}
	}
}
