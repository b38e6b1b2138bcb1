package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var paceSentences = []Sentence{
	{Text: "Reserve takes a burst at once and then a permit every interval; what would take longer than the caller waits takes nothing.",
		Name: "PermitsComeInTurn", Test: func(t *T) {
			t.wantPaced(pace("k", 2, 0), true, 0)
			t.wantPaced(pace("k", 1, 0), true, 0)
			t.wantPaced(pace("k", 1, 0), false, 10*time.Minute)
			t.wantPaced(pace("k", 1, time.Hour), true, 10*time.Minute)
			t.wantPaced(pace("k", 1, 15*time.Minute), false, 5*time.Minute)
			t.wantPaced(pace("k", 2, 30*time.Minute), true, 30*time.Minute)
			t.wantPaced(pace("k", 1, 0), false, 40*time.Minute)
			t.Advance(35 * time.Minute)
			t.wantPaced(pace("k", 1, 0), false, 5*time.Minute)
			t.Advance(6 * time.Minute)
			t.wantPaced(pace("k", 1, 0), true, 0)
			t.wantPaced(pace("k", 1, 0), false, 9*time.Minute)
			got := t.reserve()
			t.check(len(got) == 0, "%v for nothing", got)
		}},
	{Text: "Every key has a rate of its own, whatever bytes it has, and answers come in the order of the call.",
		Name: "PacesAreByKey", Test: func(t *T) {
			t.reserve(pace("k", 3, 0))
			keys := []string{"b", "a", "K", "\x00\xff", strings.Repeat("k", pawl.MaxKey), "k"}
			var paces []store.Pace
			for i, key := range keys {
				paces = append(paces, pace(key, 1+i%3, 0))
			}
			for i, got := range t.reserve(paces...) {
				if keys[i] == "k" {
					t.isPaced(got, false, 30*time.Minute)
				} else {
					t.isPaced(got, true, 0)
				}
			}
		}},
	{Text: "Nobody has a permit of a key that is held until the hold is over; a shorter hold changes nothing, and a burst does not begin earlier.",
		Name: "HoldsAreForAll", Test: func(t *T) {
			t.wantPaced(holdFor("k", time.Hour), true, time.Hour)
			t.wantPaced(holdFor("k", time.Minute), true, time.Hour)
			t.wantPaced(pace("k", 1, 0), false, time.Hour)
			t.wantPaced(pace("other", 1, 0), true, 0)
			t.Advance(50 * time.Minute)
			t.wantPaced(pace("k", 1, 0), false, 10*time.Minute)
			t.wantPaced(pace("k", 1, time.Hour), true, 10*time.Minute)
			t.Advance(11 * time.Minute)
			t.wantPaced(pace("k", 1, 0), false, 9*time.Minute)
			t.reserve(pace("used", 3, 0))
			t.wantPaced(holdFor("used", time.Minute), true, 10*time.Minute)
			t.wantPaced(pace("used", 1, 0), false, 10*time.Minute)
		}},
	{Text: "A key that is not used has its whole burst again after as long as its permits take, and no more than that.",
		Name: "PacesAreForgotten", Test: func(t *T) {
			t.reserve(pace("k", 3, 0))
			t.Advance(31 * time.Minute)
			t.wantPaced(pace("k", 3, 0), true, 0)
			t.wantPaced(pace("k", 1, 0), false, 10*time.Minute)
			t.Advance(1000 * time.Hour)
			t.wantPaced(pace("k", 3, 0), true, 0)
			t.wantPaced(pace("k", 1, 0), false, 10*time.Minute)
		}},
	{Text: "A Reserve of what is not valid, of one key twice, or of too much fails as a whole and takes nothing.",
		Name: "PacesAreRefused", Test: func(t *T) {
			good := pace("good", 3, 0)
			for _, bad := range []store.Pace{
				{}, pace("", 1, 0), pace(strings.Repeat("k", pawl.MaxKey+1), 1, 0), pace("k", 4, 0), pace("k", -1, 0),
				pace("k", 1, -1),
				pace("k", 0, 0), {Key: "k", N: 1}, {Key: "k", N: 1, Every: -1},
				{Key: "k", N: 1, Every: time.Hour, Burst: -1},
				{Key: "k", N: 1, Every: pawl.MaxDelay, Burst: 2}, holdFor("k", -1), holdFor("k", pawl.MaxDelay+1),
				{Key: "k", N: 1, Every: time.Hour, Hold: 1}, pace("k", 1, pawl.MaxDelay+1), good,
			} {
				t.invalid(errOf(optional[store.Shared](t).Reserve(t.ctx(), good, bad)))
			}
			_, err := optional[store.Shared](t).Reserve(t.ctx(), make([]store.Pace, store.MaxBatch+1)...)
			t.wantErr(err, store.ErrTooLarge)
			t.wantPaced(good, true, 0)
			t.wantPaced(store.Pace{Key: "one", Every: time.Hour, N: 1}, true, 0)
			t.wantPaced(store.Pace{Key: "one", Every: time.Hour, N: 1}, false, time.Hour)
		}},
	{Text: "What one process took or held, counts for another one at once.",
		Name: "PacesAreShared", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			t.reserve(pace("k", 3, 0))
			answers := peer.reserve(pace("k", 1, 0), holdFor("held", time.Hour))
			t.isPaced(answers[0], false, 10*time.Minute)
			t.wantPaced(pace("held", 1, 0), false, time.Hour)
		}},
	{Text: "Permits are neither seen among marks nor forgotten with them.",
		Name: "PacesAreNoMarks", Needs: needs(store.CanMarks), Test: func(t *T) {
			t.reserve(pace("k", 3, 0))
			t.putMarks(mark("k", "v"))
			t.wantListed("scope", "", "k")
			t.must(t.marks().Forget(t.ctx(), "scope"))
			t.wantPaced(pace("k", 1, 0), false, 10*time.Minute)
		}},
}

// pace takes a permit of a key that has three at once and one every ten minutes.
func pace(key string, n int, within time.Duration) store.Pace {
	return store.Pace{Key: key, Every: 10 * time.Minute, Burst: 3, N: n, Within: within}
}

func holdFor(key string, length time.Duration) store.Pace {
	p := pace(key, 0, 0)
	p.Hold = length
	return p
}

func (t *T) reserve(paces ...store.Pace) []store.Paced {
	answers, err := optional[store.Shared](t).Reserve(t.ctx(), paces...)
	t.must(err)
	t.check(len(answers) == len(paces), "%d answers to %d paces", len(answers), len(paces))
	return answers
}

// wantPaced reserves; the answer may be less by what goes by meanwhile.
func (t *T) wantPaced(p store.Pace, taken bool, wait time.Duration) {
	t.isPaced(t.reserve(p)[0], taken, wait)
}

func (t *T) isPaced(got store.Paced, taken bool, wait time.Duration) {
	t.check(got.Taken == taken && got.Wait <= wait+time.Second && got.Wait >= max(wait-2*time.Minute, 0) &&
		(taken || got.Wait > 0), "%+v; want taken %t after %v", got, taken, wait)
}

// permitsAreGivenOnce: several ask for permits of the same keys at once, in different
// orders. As many are given as there are.
func permitsAreGivenOnce(t *T) {
	const workers, keys, burst = 6, 50, 3
	var given [keys]atomic.Int32
	t.together(workers, func(i int, t *T) {
		order := make([]int, keys)
		for j := range order {
			if order[j] = j; i%2 == 1 {
				order[j] = keys - 1 - j
			}
		}
		for j, a := range t.reserve(each(order, func(key int) store.Pace {
			return store.Pace{Key: fmt.Sprint("k", key), Every: 24 * time.Hour, Burst: burst, N: 1}
		})...) {
			if a.Taken {
				given[order[j]].Add(1)
			}
		}
	})
	for i := range given {
		n := given[i].Load()
		t.check(n == burst, "%d permits of key %d were given; there are %d", n, i, burst)
	}
}
