package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// faults are what goes wrong, by name. A value is a number; durations are in milliseconds.
type faults map[string]float64

// fault is a switch.
type fault struct{ name, doc string }

func allFaults() []fault {
	return []fault{
		{"busy", "share of calls that are answered by -1"},
		{"concurrency", "calls of one API at once above which the answer is 45033; 0: none"},
		{"limit", "calls of one API in a minute above which the answer is 45009; 0: none"},
		{"sync_limit",
			"calls of sync_msg without a token in a minute above which the answer is 45009; 0: none (a guess)"},
		{"sync_delay", "milliseconds that sync_msg takes"},
		{"send_delay", "milliseconds that send_msg takes"},
		{"send_lost", "share of calls of send_msg that take effect, and are not answered"},
		{"send_fail", "share of messages that are taken and then reported by msg_send_fail"},
		{"token_early", "calls after which the access token is not valid any more; 0: it lasts"},
		{"msgtoken_early", "share of calls of sync_msg whose token is answered by 95007"},
		{"bad_secret", "1: gettoken is answered by 40001"},
		{"errcode", "the code by which all calls but gettoken are answered, such as 48002; 0: none"},
		{"short_pages", "the most messages of a page; 0: as many as were asked for"},
		{"empty_pages", "share of pages that are empty, with has_more"},
		{"callback_repeat", "how often a callback is sent; 0: once"},
		{"callback_lost", "share of callbacks that are not sent"},
		{"callback_shuffle", "milliseconds by which callbacks are late at most, each by another time"},
		{"duplicate_errcode", "the code of a msgid that was there before (a guess; 95099 unless it is set)"},
		{"state", "session state of all users: 2, 3 and 4 are answered by 95018; 0: the real one"},
	}
}

// FaultNames are the names of the switches.
func FaultNames() []string {
	var names []string
	for _, f := range allFaults() {
		names = append(names, f.name)
	}
	return names
}

// FaultDocs are the switches, a line each.
func FaultDocs() string {
	var b strings.Builder
	for _, f := range allFaults() {
		fmt.Fprintf(&b, "  %-18s %s\n", f.name, f.doc)
	}
	return b.String()
}

// Fault sets a switch; 0 switches it off.
func (s *Server) Fault(name, value string) error {
	if !slices.Contains(FaultNames(), name) {
		return fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(FaultNames(), ", "))
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || n < 0 {
		return errors.New("the value of a fault is a number that is not negative")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[name] = n
	return nil
}

// chance reports whether something happens that a fault makes happen so often. The lock is held.
func (s *Server) chance(name string) bool {
	p := s.faults[name]
	return p > 0 && s.rand.Float64() < p
}

func (s *Server) delay(name string) {
	s.mu.Lock()
	d := time.Duration(s.faults[name] * float64(time.Millisecond))
	s.mu.Unlock()
	if d > 0 {
		time.Sleep(d)
	}
}
