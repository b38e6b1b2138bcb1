package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// A document that the server does not survive, or that makes it silent, must not hold up those that share its
// request. A request without an answer is split while the server answers a small one, down to the item that causes
// it; only that one has failed. What was learned is kept until the item is answered, so that the search goes on where
// it stopped, after a pause, too, and where the server dies of the item.

const (
	splitBy      = 8 // a request without an answer takes its whole time, so few steps count
	mostSuspects = 20_000
	leastTimeout = 2 * time.Second

	// A body that is refused while it is written often costs the answer, too. So the server is asked first whether it
	// wants one of which that is feared; it is sent after a second where that is not answered.
	largeItem = 1 << 20
)

var errLater = errors.New("the time of this batch is over")

// suspects says how many items a request may have with one whose request got no answer.
type suspects struct {
	mu   sync.Mutex
	most map[suspect]int
}

type suspect struct {
	id      string
	version int64
}

// of returns the limit of an item; 0 is none.
func (s *suspects) of(a *action) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most[suspect{a.id, a.version}]
}

// note stores the limit of an item; 0 forgets it.
func (s *suspects) note(a *action, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case most == 0:
		delete(s.most, suspect{a.id, a.version})
		return
	case s.most == nil || len(s.most) >= mostSuspects: // other processes may have written them
		s.most = map[suspect]int{}
	}
	s.most[suspect{a.id, a.version}] = most
}

// sending is items on their way to the index.
type sending struct {
	*projection
	items   []action
	results []result
	queue   [][]int // requests to come, of positions
	alive   bool    // the server answered last
	asked   bool    // whether all is refused
	whole   error
}

// send writes items in requests of at most so many bytes, and returns a result for each. whole is a failure that is
// the state of the server; what was not sent because of it has it, too.
func (p *projection) send(ctx context.Context, items []action, most int64) (results []result, whole error) {
	_, level := p.window.why()
	s := sending{projection: p, items: items, results: make([]result, len(items)), alive: level == 0}
	s.plan(most)
	for began := time.Now(); len(s.queue) > 0; {
		lot := s.queue[0]
		s.queue = s.queue[1:]
		switch {
		case s.whole != nil:
			s.end(lot, result{err: s.whole, unsent: true})
		case time.Since(began) > p.deadline/2:
			s.end(lot, result{err: errLater, unsent: true})
		default:
			s.request(ctx, lot)
		}
	}
	return s.results, s.whole
}

// plan makes requests of the items, suspects last.
func (s *sending) plan(most int64) {
	order, limits := make([]int, len(s.items)), make([]int, len(s.items))
	for i := range s.items {
		order[i], limits[i] = i, cmp.Or(s.suspects.of(&s.items[i]), len(s.items)+1)
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(limits[b], limits[a]) })
	for len(order) > 0 {
		n, size, kind := 0, int64(0), limits[order[0]]
		for n < len(order) && n < kind && limits[order[n]] == kind {
			size += int64(s.items[order[n]].size())
			if n > 0 && size > most {
				break
			}
			n++
		}
		s.queue, order = append(s.queue, order[:n:n]), order[n:]
	}
}

func (s *sending) end(lot []int, r result) {
	for _, i := range lot {
		s.results[i] = r
	}
}

// split puts the items of a request into so many smaller ones, behind all others.
func (s *sending) split(lot []int, by int) {
	s.queue = slices.AppendSeq(s.queue, slices.Chunk(lot, (len(lot)+by-1)/by))
}

// request sends one request.
func (s *sending) request(ctx context.Context, lot []int) {
	first := &s.items[lot[0]]
	suspected := s.suspects.of(first) > 0
	if suspected && !s.alive {
		if s.whole = s.probe(ctx, first.index); s.whole != nil {
			s.end(lot, result{err: s.whole, unsent: true})
			return
		}
		s.alive = true
	}
	items := make([]action, len(lot))
	for n, i := range lot {
		items[n] = s.items[i]
	}
	results, err := s.bulk(ctx, items, suspected)
	a, answered := errors.AsType[*answerError](err)
	switch {
	case err == nil:
		s.alive = true
		for n, i := range lot {
			s.results[i] = results[n]
			s.suspects.note(&items[n], 0)
		}
	case ctx.Err() != nil, answered && a.status == http.StatusTooManyRequests:
		s.whole = classify(err)
		s.end(lot, result{err: s.whole})
	case answered && a.status < 500 && a.status != http.StatusRequestTimeout:
		switch {
		case (len(lot) == 1 || !s.asked) && s.refusesAll(ctx, lot, classify(err)):
		case len(lot) > 1:
			s.split(lot, 2)
		default:
			s.end(lot, s.refusedAlone(first, a))
		}
	default:
		s.silent(ctx, lot, classify(err), suspected)
	}
}

// bulk bounds how long a request takes, so that several without an answer fit into the time of a batch.
func (s *sending) bulk(ctx context.Context, items []action, suspected bool) ([]result, error) {
	limit := min(searchTimeout, s.deadline/4)
	if suspected {
		limit /= 3
	}
	ctx, cancel := context.WithTimeout(ctx, max(limit, leastTimeout))
	defer cancel()
	return s.search.request(ctx, items, len(items) == 1 && (suspected || items[0].size() > largeItem))
}

// refusesAll reports whether a small request is refused like this one: then its items are not the reason, but the
// server, or what stands before it.
func (s *sending) refusesAll(ctx context.Context, lot []int, err error) bool {
	s.asked = true
	if s.alive = s.probe(ctx, s.items[lot[0]].index) == nil; s.alive {
		return false
	}
	if s.whole = err; pawl.Describe(err).Kind != kindConfig {
		s.whole = pawl.OfKind(kindServer, errors.New("every request is refused: "+err.Error())) // no longer permanent
	}
	s.end(lot, result{err: s.whole})
	return true
}

// refusedAlone is the result of an item whose request, without another one in it, was refused while a small one is
// answered. A status that is usually about access or an address is then about the item: what stands before the index
// does not let it through.
func (s *sending) refusedAlone(item *action, a *answerError) result {
	err := classify(a)
	if pawl.Describe(err).Class == pawl.ClassPermanent {
		return result{err: err}
	}
	s.suspects.note(item, 1)
	err = pawl.WithAttrs(fmt.Errorf("only this document is refused: %w", a), pawl.Describe(err).Attrs)
	return result{err: pawl.OfKind(kindServer, err), alone: true}
}

// silent decides about a request that was not answered, or with a failure of the server.
func (s *sending) silent(ctx context.Context, lot []int, err error, suspected bool) {
	was := s.alive
	s.alive = s.probe(ctx, s.items[lot[0]].index) == nil
	if was || s.alive {
		for _, i := range lot {
			s.suspects.note(&s.items[i], max(len(lot)/splitBy, 1))
		}
	}
	if !s.alive {
		s.whole = err
	}
	switch {
	case len(lot) > 1 && s.alive:
		s.split(lot, splitBy)
	case len(lot) == 1 && (s.alive || suspected):
		s.end(lot, result{err: err, alone: true})
	default:
		s.end(lot, result{err: err})
	}
}

// probe asks for something harmless in the way that documents are written: the deletion of a document that is not
// there. One that is there has a higher version.
func (p *projection) probe(ctx context.Context, index string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	results, err := p.search.request(ctx, []action{{index: index, id: "pawl-probe", remove: true}}, false)
	if err == nil && results[0].err != nil {
		err = results[0].err
	}
	if err != nil {
		return classify(fmt.Errorf("a probe: %w", err))
	}
	return nil
}
