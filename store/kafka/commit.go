package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// committer commits what is finished: the offset of the first message that is not, and
// beside it, in the metadata of the commit, which ones behind it are. Nothing else may
// commit: a commit that bypasses it would wipe the metadata.
type committer struct {
	s      *Store
	client atomic.Pointer[kgo.Client]

	turn       chan struct{} // holds one: one commit at a time
	membership membership
	limit      int          // bytes of metadata that the brokers take; 0: not known
	learned    time.Time    // when
	last       atomic.Int64 // when the last commit began, in nanoseconds since 1970
	commits    atomic.Uint64
	failed     atomic.Uint64
	bare       atomic.Uint64 // without metadata, because it was too large
}

func (c *committer) init(s *Store) { c.s, c.turn = s, make(chan struct{}, 1) }

// begin waits until no other commit is under way, no longer than ctx lasts. The
// function it returns lets the next one begin.
func (c *committer) begin(ctx context.Context) (end func(), err error) {
	select {
	case c.turn <- struct{}{}:
		return func() { <-c.turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type place struct {
	topic     string
	partition int32
}

// loop commits when there is something new: at once if the last commit is an
// interval ago, so that what is begun after a pause is on record soon.
func (c *committer) loop() {
	interval := c.s.cfg.Consume.Commit
	for {
		select {
		case <-c.s.engine.dirty:
		case <-c.s.ctx.Done():
			return
		case <-c.s.group.leaving:
			return
		}
		wait := time.Until(time.Unix(0, c.last.Load()).Add(interval))
		select {
		case <-time.After(min(wait, interval)):
		case <-c.s.ctx.Done():
			return
		case <-c.s.group.leaving:
			return
		}
		ctx, cancel := context.WithTimeout(c.s.ctx, commitTimeout)
		err := c.commit(ctx, c.s.engine.touched())
		cancel()
		if err != nil && c.s.ctx.Err() == nil {
			signal(c.s.engine.dirty)
		}
	}
}

// relearn is after how long it is tried again whether the brokers take more
// metadata than they did.
const relearn = 10 * time.Minute

// commitTimeout bounds a commit.
const commitTimeout = 10 * time.Second

// touched returns the assignments about which there is something to commit.
func (e *engine) touched() []*assignment {
	e.mu.Lock()
	defer e.mu.Unlock()
	var as []*assignment
	for _, a := range e.byID {
		if a.state == live && a.touched {
			as = append(as, a)
		}
	}
	return as
}

// final commits assignments for the last time, and drops them.
func (c *committer) final(ctx context.Context, as []*assignment) error {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	cps := map[*assignment]gate.Checkpoint{}
	for _, a := range as {
		if !c.s.engine.isGone(a) {
			cps[a] = c.s.engine.conclude(a)
		}
	}
	for {
		err := c.send(ctx, cps)
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-time.After(retryFinal):
		case <-ctx.Done():
			return err
		}
	}
}

// retryFinal is the pause between tries of a last commit: no later one makes up for it.
const retryFinal = 50 * time.Millisecond

// passing tells errors of a commit that the next try may not meet. In a rebalance
// all tries do until it is over, and it waits for us.
func passing(err error) bool {
	return kerr.IsRetriable(err) && !errors.Is(err, kerr.RebalanceInProgress)
}

// isGone tells whether an assignment is over.
func (e *engine) isGone(a *assignment) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return a.state == gone
}

// commit commits assignments.
func (c *committer) commit(ctx context.Context, as []*assignment) error {
	end, err := c.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	cps := map[*assignment]gate.Checkpoint{}
	c.s.engine.mu.Lock()
	for _, a := range as {
		if a.state != gone {
			cps[a] = c.s.engine.checkpoint(a)
		}
	}
	c.s.engine.mu.Unlock()
	c.last.Store(time.Now().UnixNano())
	err = c.send(ctx, cps)
	c.s.engine.recorded(cps, err)
	return err
}

// recorded takes note of since when something waits to be committed, after a commit
// of checkpoints: what failed still does, and so does what had no room in the
// metadata.
func (e *engine) recorded(cps map[*assignment]gate.Checkpoint, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a, cp := range cps {
		asked := a.asked
		a.asked = 0
		switch {
		case err != nil:
			a.owed = earliest(asked, a.owed)
		case a.bare && a.gate.Backlog() > 0:
			if a.bareAt != cp.Base { // it came forward
				a.bareAt, asked = cp.Base, e.now().UnixNano()
			}
			a.owed = earliest(asked, a.owed)
		}
	}
}

// earliest returns the earlier of two times, of which zero is none.
func earliest(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// owedSince is since when something has been waiting to be committed; 0 if nothing
// has.
func (a *assignment) owedSince() int64 { return earliest(a.asked, a.owed) }

// mark puts on record that something of partitions is handed out, for the first time
// since they were assigned: a message that kills this process at once would leave no
// trace otherwise. Where the brokers take no commits that is no reason to do nothing.
func (s *Store) mark(ctx context.Context, as map[*assignment]bool, lease time.Duration) {
	if err := s.commitNow(ctx, as, min(markTimeout, lease/2)); err != nil {
		s.cfg.Logger.Debug("work is begun before a commit says so", "error", err)
	}
	s.engine.marked(as)
}

func (e *engine) marked(as map[*assignment]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range as {
		a.marked = true
	}
}

// markTimeout bounds the commit of a mark.
const markTimeout = time.Second

// commitNow commits what has to be on record before it is carried out, and with it
// what else there is to commit: a message that was carried out alone and is finished
// must not be on record as running when the next one kills this process.
func (s *Store) commitNow(ctx context.Context, as map[*assignment]bool, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	list := make([]*assignment, 0, len(as))
	for a := range as {
		list = append(list, a)
	}
	all := list
	for _, a := range s.engine.touched() {
		if !as[a] {
			all = append(all, a)
		}
	}
	err := s.commits.commit(ctx, all)
	if err != nil && len(all) > len(list) {
		err = s.commits.commit(ctx, list) // errors of other partitions do not matter
	}
	return err
}

// send sends checkpoints to the group's coordinator. It is the caller's turn.
func (c *committer) send(ctx context.Context, cps map[*assignment]gate.Checkpoint) error {
	if c.limit > 0 && time.Since(c.learned) > relearn {
		c.limit = 0
	}
	offsets, texts, of := map[string]map[int32]kgo.EpochOffset{}, map[place]string{}, map[place]*assignment{}
	for a, cp := range cps {
		text := cp.Text()
		if a.bare = c.limit > 0 && len(text) > c.limit; a.bare {
			c.bare.Add(1)
			c.s.health.metadataTooLarge()
			text = ""
		}
		if cp.Base == a.lastBase && text == a.lastText || a.lastBase < 0 && a.gate.Tail() == 0 {
			continue
		}
		at := place{c.s.wire(a.topic.Name), a.partition}
		texts[at], of[at] = text, a
		a.tried.Store(&committedState{cp.Base, text})
		if offsets[at.topic] == nil {
			offsets[at.topic] = map[int32]kgo.EpochOffset{}
		}
		offsets[at.topic][at.partition] = kgo.EpochOffset{Epoch: -1, Offset: cp.Base}
	}
	client := c.client.Load()
	if len(offsets) == 0 || client == nil {
		return nil
	}
	var outcome error
	var tooLarge []place
	if resp := c.direct(ctx, client, offsets, texts, of); resp != nil {
		tooLarge, outcome = c.answered(resp, nil, offsets, texts, of)
	} else {
		client.CommitOffsetsSync(c.withMetadata(ctx, texts, of), offsets,
			func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
				tooLarge, outcome = c.answered(resp, err, offsets, texts, of)
			})
	}
	c.commits.Add(1)
	if outcome != nil {
		c.failed.Add(1)
		c.s.health.commitFailed(outcome)
		c.s.engine.touchAgain(cps)
	}
	if len(tooLarge) > 0 {
		again := map[*assignment]gate.Checkpoint{}
		for _, at := range tooLarge {
			c.limit = max(1, min(orMax(c.limit), len(texts[at])-1))
			again[of[at]] = cps[of[at]]
		}
		c.learned = time.Now()
		return errors.Join(outcome, c.send(ctx, again))
	}
	return outcome
}

func orMax(n int) int {
	if n == 0 {
		return gate.MaxText
	}
	return n
}

// touchAgain takes note that a commit failed: there is something to commit still.
func (e *engine) touchAgain(cps map[*assignment]gate.Checkpoint) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for a := range cps {
		a.touched = true
	}
	signal(e.dirty) // nothing else will: to the next ack it looks as if it were committed
}

// errOver: brokers do not check that a partition belongs to the member that commits it.
var errOver = errors.New("a partition was taken away before its commit was sent")

// withMetadata puts our text into the commit in place of the client's own. It is
// called when the client is about to send it, which may be after a rebalance that
// it waited for: what was taken away in it is not committed.
func (c *committer) withMetadata(ctx context.Context, texts map[place]string,
	of map[place]*assignment) context.Context {
	return kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		if c.s.engine.fenced(of) {
			return errOver
		}
		for i := range req.Topics {
			t := &req.Topics[i]
			for j := range t.Partitions {
				text := texts[place{t.Topic, t.Partitions[j].Partition}]
				t.Partitions[j].Metadata = &text
			}
		}
		c.membership.learn(req)
		return nil
	})
}

// answered reads the answer to a commit.
func (c *committer) answered(resp *kmsg.OffsetCommitResponse, err error, offsets map[string]map[int32]kgo.EpochOffset,
	texts map[place]string, of map[place]*assignment) (tooLarge []place, outcome error) {
	if err != nil {
		return nil, err
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		name := c.s.group.nameOf(t.Topic, t.TopicID)
		for j := range t.Partitions {
			at := place{name, t.Partitions[j].Partition}
			err := kerr.ErrorForCode(t.Partitions[j].ErrorCode)
			switch {
			case errors.Is(err, kerr.OffsetMetadataTooLarge):
				tooLarge = append(tooLarge, at)
			case err != nil:
				outcome = err
			case of[at] != nil:
				of[at].lastBase, of[at].lastText = offsets[at.topic][at.partition].Offset, texts[at]
				of[at].acked.Store(&committedState{of[at].lastBase, of[at].lastText})
			}
		}
	}
	return tooLarge, outcome
}
