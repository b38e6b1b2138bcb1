package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Append implements [store.Store]. It waits until all in-sync replicas have the
// messages. When only some could be stored, or it is unknown of some, receipts
// come along with the error and tell which.
func (s *core) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, "append"); err != nil {
		return nil, err
	}
	records, at, topics := make([]*kgo.Record, 0, len(batch.Items)), make([]int, 0, len(batch.Items)), map[string]bool{}
	now := s.cfg.Now()
	for i := range batch.Items {
		m := &batch.Items[i]
		if receipts[i].Err == nil {
			receipts[i].Err = s.refuses(m)
		}
		if receipts[i].Err != nil {
			continue
		}
		r := s.recordOf(m, receipts[i].ID, now)
		records, at = append(records, r), append(at, i)
		topics[r.Topic] = true
	}
	if len(records) == 0 {
		return receipts, nil
	}
	if err := s.topics.ensure(ctx, topics); err != nil {
		return nil, s.explain("append", err)
	}
	errs := s.produce(ctx, records)
	var first error
	for i, err := range errs {
		switch {
		case err == nil:
		case isPermanent(err):
			receipts[at[i]].Err = s.explain("append", err)
		default:
			hint, _ := s.codeOf(err)
			receipts[at[i]].Err = failure(err, hint)
			if first == nil {
				first = err
			}
		}
	}
	if first != nil {
		return receipts, s.explain("append", first)
	}
	return receipts, nil
}

// produce sends records and waits for all of them; a nil error is one that all in-sync
// replicas have. Keys and values are copied: the caller may reuse its own after it
// returns. A record is refused as too large only if its topic does not take it alone.
func (s *core) produce(ctx context.Context, records []*kgo.Record) []error {
	began := time.Now()
	errs := s.produceTogether(ctx, records, s.producers.of)
	for _, again := range refusedTogether(records, errs) {
		s.topics.learnLimit(ctx, records[again[0]].Topic)
		s.produceApart(ctx, records, again, errs)
	}
	for _, err := range errs {
		if isTooLarge(err) {
			s.made.note(began, err)
		}
	}
	return errs
}

// refusedTogether are the records that were not stored because a batch of their topic was too large, by topic. The
// brokers refuse a batch as a whole, and the client fails with it all that it has for the partition.
func refusedTogether(records []*kgo.Record, errs []error) [][]int {
	var all [][]int
	at := map[string]int{} // in all, from 1
	for i, err := range errs {
		if topic := records[i].Topic; at[topic] == 0 && isTooLarge(err) {
			all = append(all, nil)
			at[topic] = len(all)
		}
	}
	for i, err := range errs {
		if n := at[records[i].Topic]; n > 0 && (isTooLarge(err) || err == errFollows || err == errDropped) {
			all[n-1] = append(all[n-1], i)
		}
	}
	return all
}

// produceApart sends records of a topic again, in their order: in batches that the topic takes,
// and records that may be larger by themselves. It changes their errors to the new outcomes.
func (s *core) produceApart(ctx context.Context, records []*kgo.Record, again []int, errs []error) {
	limit := s.topics.limitOf(records[again[0]].Topic)
	fits := func(i int) bool { return limit.sure && limit.takes(weight(records[i])) }
	for failed := false; len(again) > 0; {
		n, by, fit := 1, s.producers.alone, fits(again[0])
		if fit {
			by = s.producers.of
			for n < len(again) && fits(again[n]) {
				n++
			}
		}
		part := make([]*kgo.Record, n)
		for i := range part {
			r := records[again[i]]
			part[i] = &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
		}
		if !fit {
			s.producers.turn.Lock()
		}
		got := s.produceTogether(ctx, part, by)
		if !fit {
			s.producers.turn.Unlock()
		}
		for i, err := range got {
			if fit && isTooLarge(err) { // the topic takes even less now
				err = errDropped
			}
			errs[again[i]] = err
			failed = failed || err != nil && !isPermanent(err) && part[i].Key != nil
		}
		if again = again[n:]; failed {
			for _, i := range again {
				errs[i] = errFollows
			}
			return
		}
	}
}

// produceTogether sends records by the clients that by chooses, and waits for all of them.
func (s *core) produceTogether(ctx context.Context, records []*kgo.Record, by chooser) []error {
	if len(records) == 0 {
		return nil
	}
	// The client waits for the outcome of a record on the wire; this function does not.
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Produce.Timeout+time.Second, kgo.ErrRecordTimeout)
	defer cancel()
	c := newCall(len(records))
	bytes := 0
	for _, r := range records {
		bytes += weight(r)
	}
	began := time.Now()
	if err := s.buffer.take(ctx, bytes); err != nil {
		for range records {
			s.made.note(began, err)
		}
		return c.giveUp(err)
	}
	own(records)
	for i, r := range records {
		s.put(c, i, r, began, by)
	}
	select {
	case <-c.done:
		for i, err := range c.errs {
			s.forget(records[i].Topic, err)
		}
		return c.errs
	case <-ctx.Done():
		return c.giveUp(fmt.Errorf("%w: %w", store.ErrUnknown, ended(ctx)))
	}
}

// put hands record i of a call to the client, unless one of its topic has failed: nothing is
// stored behind that. The client does not ensure that: it fails all pending records of a
// partition, and accepts the next ones a moment later. It reports the failure even later, from
// another goroutine: answer drops the records that were accepted until then and are not sent.
// They are sent only if a request leaves at that very moment.
func (s *core) put(c *call, i int, r *kgo.Record, began time.Time, by chooser) {
	size := weight(r)
	answer := func(_ *kgo.Record, err error) {
		if errors.Is(err, context.Canceled) && s.ctx.Err() == nil {
			err = errDropped // by this call or by another one, not by whoever called
		}
		s.buffer.give(size)
		if !isTooLarge(err) { // else it is tried again
			s.made.note(began, err)
		}
		c.answer(i, r, about(r.Topic, err))
	}
	ctx := c.to(s.ctx, r.Topic)
	if ctx.Err() != nil && s.ctx.Err() == nil {
		answer(r, errFollows)
		return
	}
	by(r.Topic, size).TryProduce(ctx, r, answer)
}

// forget drops a topic whose record failed if the brokers no longer know it, or it was
// created again. The next producer looks it up again, and also asks again for the batch
// limit of a topic of dead letters that refused a letter as too large.
func (s *core) forget(topic string, err error) {
	if errors.Is(err, kerr.MessageTooLarge) {
		s.topics.forgetLimit(topic)
	}
	if isUnknownTopic(err) && s.topics.forget(topic) {
		s.producers.forget(topic)
	}
}

// call is records on their way to the brokers.
type call struct {
	mu   sync.Mutex
	errs []error
	left int
	done chan struct{}
	sent map[string]sending // topics
}

// sending is the context of a call's records of a topic. drop has the client fail those that it has not sent.
type sending struct {
	ctx  context.Context
	drop context.CancelFunc
}

func newCall(records int) *call {
	c := &call{errs: make([]error, records), left: records, done: make(chan struct{}), sent: map[string]sending{}}
	for i := range c.errs {
		c.errs[i] = errUnanswered
	}
	return c
}

// to returns the context for a record to a topic.
func (c *call) to(ctx context.Context, topic string) context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, known := c.sent[topic]
	if !known {
		to.ctx, to.drop = context.WithCancel(ctx)
		c.sent[topic] = to
	}
	return to.ctx
}

// The errors of a record without an answer of a broker.
var (
	errUnanswered = errors.New("no answer yet")
	errFollows    = errors.New("not sent: a message before it in its topic failed")
	errDropped    = errors.New("given up: another message of the topic failed")
)

func (c *call) answer(i int, r *kgo.Record, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errs != nil {
		c.errs[i] = err
	}
	if err != nil && r.Key != nil && (!isPermanent(err) || isTooLarge(err)) { // which may be about its batch
		c.sent[r.Topic].drop()
	}
	if c.left--; c.left == 0 {
		for _, to := range c.sent {
			to.drop() // nothing is left; it frees the context
		}
		close(c.done)
	}
}

// giveUp returns the outcomes known so far, and why the rest are unknown.
func (c *call) giveUp(why error) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := c.errs
	c.errs = nil
	for i := range errs {
		if errs[i] == errUnanswered {
			errs[i] = why
		}
	}
	return errs
}

// failure is the error of a message that is not stored, or perhaps not: which of the
// two, and why.
func failure(err error, hint string) error {
	code := outcome(err)
	if !answered(err) {
		err = fmt.Errorf("%w: %w", store.ErrNoAnswer, err)
	}
	return &store.Error{Op: "append", Code: code, Err: err, Hint: hint}
}

// answered reports whether the error of a record is a broker's answer. All other errors
// the client infers itself.
func answered(err error) bool {
	_, said := errors.AsType[*kerr.Error](err)
	return said
}

// outcome reports whether a record that failed is certainly not in the log: it was not sent, or
// a broker refused it. Everything else is unknown.
func outcome(err error) error {
	switch {
	case errors.Is(err, errNoRoom), errors.Is(err, errFollows):
		return store.ErrUnavailable
	case errors.Is(err, kerr.RequestTimedOut), errors.Is(err, kerr.NotEnoughReplicasAfterAppend), !answered(err):
		return store.ErrUnknown
	default:
		return store.ErrUnavailable
	}
}

// isPermanent reports whether the error of a record would come again with each repetition.
func isPermanent(err error) bool {
	return isTooLarge(err) || errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.InvalidTopicException)
}

func isTooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// emit produces what the items of a batch emit, if their tokens are good. It returns
// the error of the first that could not be stored; one that no broker accepts fails
// only its own item.
func (s *core) emit(ctx context.Context, batch store.Batch[store.Settlement],
	bad map[int]bool) ([]store.Refusal, error) {
	var records []*kgo.Record
	var of []int
	var refused []store.Refusal
	topics := map[string]bool{}
	refuse := func(i int, err error) {
		if !bad[i] {
			bad[i] = true
			refused = append(refused, store.Refusal{Index: i, Err: &pawl.InvalidError{Field: "emit", Why: err.Error()}})
		}
	}
	now := s.cfg.Now()
	for i := range batch.Items {
		st := &batch.Items[i]
		if len(st.Emit) == 0 || bad[i] || !s.engine.good(st.Token) {
			continue
		}
		for j := range st.Emit {
			if err := s.refuses(&st.Emit[j]); err != nil {
				refuse(i, err)
			}
		}
		for j := range st.Emit {
			if bad[i] {
				break
			}
			r := s.recordOf(&st.Emit[j], pawl.EmitID(st.ID, j), now)
			records, of = append(records, r), append(of, i)
			topics[r.Topic] = true
		}
	}
	if len(records) == 0 {
		return refused, nil
	}
	if err := s.topics.ensure(ctx, topics); err != nil {
		return nil, s.explain("settle", err)
	}
	for i, err := range s.produce(ctx, records) {
		switch {
		case err == nil:
		case isPermanent(err):
			refuse(of[i], err)
		default:
			return nil, unavailable("settle", err)
		}
	}
	return refused, nil
}

func (e *engine) good(tok pawl.Token) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l, f := e.held(tok)
	return f != nil && l.of.state != gone
}

// refuses is the Refuses of the [store.Description]: it refuses messages with features that a
// log lacks, and those that the client will never send. A record that is only just too large is
// not noticed here: the client decides about its overhead, and the brokers about the limit of
// the topic.
func (s *core) refuses(m *pawl.Message) error {
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

// Owner reports whether this store keeps data of its own in a topic, and for which topic:
// the one whose dead letters it holds, or none for the topic of the state.
func (s *core) Owner(topic string) (of string, own bool) {
	if topic == s.cfg.StateTopic {
		return "", true
	}
	return s.cfg.deadHome(topic)
}

// free refuses a topic that belongs to the store itself.
func (s *core) free(op, topic string) error {
	if why, hint := s.cfg.Taken(topic); why != "" {
		err := fmt.Errorf("topic %s %s", topic, why)
		return &store.Error{Op: op, Code: store.ErrInvalid, Err: err, Hint: hint}
	}
	return nil
}

// Taken says why a topic can have no messages, and what to do; empty if it can. A message in a topic of the store
// itself would never be listed or carried out. It needs a complete configuration ([Config.Complete]).
func (c *Config) Taken(topic string) (why, hint string) {
	if topic == c.StateTopic {
		return "holds the state of this store, no messages",
			"use another topic; state_topic in the URL names the one of the state"
	}
	if of, dead := c.deadHome(topic); dead {
		return "holds the dead letters of " + of + ", no messages", "use a topic whose name does not end with " +
			c.DeadSuffix + "; dead_suffix and dead_names in the URL name such topics otherwise"
	}
	return "", ""
}
