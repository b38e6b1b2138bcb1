package observe

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// noon is when the tests of slow keys begin.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// noteOne notes one attempt.
func (s *slowKeys) noteOne(key string, took time.Duration, at time.Time) {
	s.note("mail", [][]byte{[]byte(key)}, []time.Duration{took}, at)
}

// The p99 is that of a sorted list, up to the width of a bound.
func TestP99OfAKey(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		s, n := newSlowKeys(), slowKeyRuns+random.IntN(1000)
		var all []time.Duration
		for range n {
			took := time.Duration(random.ExpFloat64() * float64(time.Second))
			all = append(all, took)
			s.noteOne("k", took, noon)
		}
		slices.Sort(all)
		want, got := max(all[n-1-n/100], time.Millisecond), s.slowest(noon)
		if len(got) != 1 || got[0].Attempts != n || got[0].P99 < want || got[0].P99 > want*119/100+1 {
			t.Fatalf("%d attempts with a p99 of %v: %+v", n, want, got)
		}
	}
}

// One slow key shows among any number of others, and what is kept does not grow.
func TestSlowKeyAmongMany(t *testing.T) {
	s := newSlowKeys()
	for i := range 100_000 {
		s.noteOne(fmt.Sprint("quick", i), time.Duration(i%5)*time.Millisecond, noon)
		if i%1000 == 0 {
			s.noteOne("slow", 300*time.Millisecond, noon)
		}
	}
	got := s.slowest(noon)
	if len(got) != 1 || got[0].Topic != "mail" || got[0].Key != "slow" || got[0].P99 < 300*time.Millisecond ||
		got[0].P99 > 360*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if k := s.topics["mail"]; len(k.keys) != slowKeysKept || len(k.by) != slowKeysKept {
		t.Errorf("%d and %d keys are kept", len(k.keys), len(k.by))
	}
}

// A key that comes when all places are taken gets one that it keeps, if it has more
// than a 64th of the time, whatever comes in between.
func TestSlowKeyThatComesLate(t *testing.T) {
	s := newSlowKeys()
	for i := range slowKeysKept {
		s.noteOne(fmt.Sprint("early", i), time.Second, noon)
	}
	for i := range 20_000 { // a tenth of them: 10 s of 164
		key := fmt.Sprint("once", i)
		if i%10 == 0 {
			key = "late"
		}
		s.noteOne(key, 5*time.Millisecond, noon)
	}
	if late := s.topics["mail"].by["late"]; late == nil {
		t.Error("it has no place")
	} else if _, n := late.p99(); n < 1000 {
		t.Errorf("it has a place since %d attempts only", n)
	}
}

// Few attempts are no p99, messages without a key have none, and what was long ago is
// forgotten.
func TestSlowKeysThatDoNotCount(t *testing.T) {
	s := newSlowKeys()
	for range slowKeyRuns - 1 {
		s.noteOne("few", time.Minute, noon)
	}
	s.note("mail", slices.Repeat([][]byte{nil}, 50), slices.Repeat([]time.Duration{time.Hour}, 50), noon)
	if got := s.slowest(noon); len(got) != 0 {
		t.Errorf("too early: %+v", got)
	}
	s.noteOne("few", time.Minute, noon)
	for _, c := range []struct {
		later time.Duration
		n     int
	}{{0, 1}, {slowKeyWindow + time.Second, 1}, {2*slowKeyWindow - time.Second, 1},
		{2*slowKeyWindow + time.Second, 0}} {
		if got := s.slowest(noon.Add(c.later)); len(got) != c.n {
			t.Errorf("%v later: %+v", c.later, got)
		}
	}
	for range slowKeyRuns {
		s.noteOne("few", time.Minute, noon.Add(10*slowKeyWindow))
	}
	if got := s.slowest(noon.Add(20 * slowKeyWindow)); len(got) != 0 {
		t.Errorf("nobody looked for long: %+v", got)
	}
}

// What is exported is of topics; no key is a label.
func TestSlowestKeyIsExported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, reg := metrics(t)
		secret := []byte("ada@example.org")
		m.RanKeys("mail", slices.Repeat([][]byte{secret, nil}, 20),
			slices.Repeat([]time.Duration{2 * time.Second, time.Hour}, 20))
		m.RanKeys("quick", slices.Repeat([][]byte{secret}, 20), slices.Repeat([]time.Duration{0}, 20))
		got := map[string]float64{}
		for _, one := range gather(t, reg)[slowestKey.name].GetMetric() {
			if strings.Contains(one.String(), "ada") {
				t.Errorf("a key is a label: %v", one)
			}
			got[one.GetLabel()[0].GetValue()] = one.GetGauge().GetValue()
		}
		if len(got) != 2 || got["mail"] < 2 || got["mail"] > 2.4 || got["quick"] != 0.001 {
			t.Errorf("%v", got)
		}
		if k := m.SlowKeys(); len(k) != 2 || k[0].Key != string(secret) {
			t.Errorf("%+v", k)
		}
		time.Sleep(3 * slowKeyWindow)
		if gather(t, reg)[slowestKey.name] != nil {
			t.Error("it is not forgotten")
		}
	})
}

func BenchmarkSlowKeys(b *testing.B) {
	for _, n := range []int{10, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, keys, took := newSlowKeys(), make([][]byte, n), make([]time.Duration, n)
			for i := range keys {
				keys[i], took[i] = fmt.Append(nil, "key-", i), time.Duration(i%7)*time.Millisecond
			}
			for i := 0; b.Loop(); i++ {
				s.note("mail", keys[i%n:i%n+1], took[i%n:i%n+1], noon)
			}
		})
	}
}
