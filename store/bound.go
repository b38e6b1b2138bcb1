package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// TopicFullError refuses an append to a topic that has [Topic.MaxWaiting] messages. Nothing
// was stored; the same message may be taken later ([Failed]).
type TopicFullError struct {
	Topic string
	// RetryAfter is how long to wait, from [MinRetryAfter] to [MaxRetryAfter]: it follows
	// from the rate at which messages have left the topic lately.
	RetryAfter time.Duration
}

// Bounds of [TopicFullError.RetryAfter], and its value if the rate at which messages leave is not known.
const (
	MinRetryAfter     = 100 * time.Millisecond
	MaxRetryAfter     = 30 * time.Second
	UnknownRetryAfter = time.Second
)

func (e *TopicFullError) Error() string {
	return fmt.Sprintf("topic %s is full; there may be room in %v", e.Topic, e.RetryAfter.Round(time.Millisecond))
}

// IsTopicFull reports whether err is a [TopicFullError]: the store is well, and the caller is to wait.
func IsTopicFull(err error) bool {
	_, full := errors.AsType[*TopicFullError](err)
	return full
}

// TooMuch returns those messages of an Append that were refused because their topics are
// full, and how long to wait before they are sent again, under another batch id. The others
// are left out: they would take room until they are recognised as duplicates.
func TooMuch(msgs []pawl.Message, receipts []Receipt) (again []pawl.Message, wait time.Duration) {
	for i := range min(len(msgs), len(receipts)) {
		if e, full := errors.AsType[*TopicFullError](receipts[i].Err); full {
			again, wait = append(again, msgs[i]), max(wait, e.RetryAfter)
		}
	}
	return again, wait
}

// RefuseBound returns the answer of a store without [CanBound] to settings: an error if they
// have a maximum of waiting messages.
func (t *Topic) RefuseBound(op string) error {
	if t.MaxWaiting == 0 {
		return nil
	}
	return &Error{Op: op, Code: ErrUnsupported, Err: fmt.Errorf("max_waiting is %d", t.MaxWaiting),
		Hint: "leave max_waiting at 0: this store takes what fits on its disks"}
}
