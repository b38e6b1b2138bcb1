package spill

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// laneKey names a lane: the messages of a topic with one key.
type laneKey struct{ topic, key string }

// call is one Append on its way.
type call struct {
	batch    store.Batch[pawl.Message] // ids are set
	receipts []store.Receipt
	routes   []route         // by message; nil: all go to the primary store
	keys     []laneKey       // of the messages, each once
	before   []chan struct{} // closed when the calls that come first have ended
	done     chan struct{}   // closed when this one has
	answered bool            // the primary store answered for each message
	kept     bool            // a message with a key became a row
}

// route is where a message goes first.
type route uint8

const (
	toPrimary route = iota
	behind          // behind the rows of its key
	aside           // its topic is down
	nowhere         // no store takes it
)

// join puts the call behind the last one of each of its keys. All are joined at once: so
// no two calls wait for each other.
func (s *Store) join(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range c.batch.Items {
		m := &c.batch.Items[i]
		if m.Key == nil || c.receipts[i].Outcome() == store.Refused {
			continue
		}
		if c.done == nil {
			c.done = make(chan struct{})
		}
		k := laneKey{m.Topic, string(m.Key)}
		last := s.turns[k]
		if last == c.done {
			continue // another message of the same key
		}
		if last != nil {
			c.before = append(c.before, last)
		}
		s.turns[k] = c.done
		c.keys = append(c.keys, k)
	}
}

// await waits until the calls before this one have ended. If it fails, the call leaves
// when they have.
func (s *Store) await(ctx context.Context, c *call) error {
	for _, ended := range c.before {
		var err error
		select {
		case <-ended:
			continue
		case <-ctx.Done():
			err = &store.Error{Op: "append", Err: ctx.Err()}
		case <-s.stop.Done():
			err = closedError("append")
		}
		go func() {
			for _, ended := range c.before {
				<-ended
			}
			s.leave(c)
		}()
		return err
	}
	return nil
}

// leave ends the call for those behind it.
func (s *Store) leave(c *call) {
	if c.done == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range c.keys {
		if s.turns[k] == c.done {
			delete(s.turns, k)
		}
	}
	close(c.done)
}
