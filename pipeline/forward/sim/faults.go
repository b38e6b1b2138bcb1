package sim

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// FaultNames lists the names of faults, for help texts.
func FaultNames() []string {
	return []string{"blocked", "drop", "fail", "latency", "moved", "refuse", "revoked", "throttle"}
}

// Fault switches a fault: throttle, fail and drop are probabilities of a 429, a 500, and a lost answer to a
// call that was carried out; latency is that of every call; blocked are chats that refuse the bot, with
// commas; moved is OLD:NEW, a group that became a supergroup; revoked=true refuses the token; refuse is a
// method that is answered 400.
func (s *Server) Fault(name, value string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.config.Faults
	switch name {
	case "throttle":
		f.Throttle, err = probability(value)
	case "fail":
		f.Fail, err = probability(value)
	case "drop":
		f.Drop, err = probability(value)
	case "latency":
		f.Latency, err = time.ParseDuration(value)
	case "blocked":
		f.Blocked, err = chats(value)
	case "moved":
		err = s.move(value)
	case "revoked":
		f.Revoked, err = strconv.ParseBool(value)
	case "refuse":
		f.Refuse = value
	default:
		return fmt.Errorf("there is no fault %q; there are %s", name, strings.Join(FaultNames(), ", "))
	}
	if err != nil {
		return fmt.Errorf("fault %s: %w", name, err)
	}
	return nil
}

func probability(s string) (float64, error) {
	p, err := strconv.ParseFloat(s, 64)
	if err == nil && (p < 0 || p > 1) {
		err = errors.New("it goes from 0 to 1")
	}
	return p, err
}

func chats(text string) (map[int64]bool, error) {
	all := map[int64]bool{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, err
		}
		all[id] = true
	}
	return all, nil
}

// move makes a supergroup of a group.
func (s *Server) move(value string) error {
	from, to, _ := strings.Cut(value, ":")
	a, err := strconv.ParseInt(from, 10, 64)
	b, err2 := strconv.ParseInt(to, 10, 64)
	c := s.chats[a]
	if err != nil || err2 != nil || c == nil {
		return errors.New("it is OLD:NEW, the numbers of a chat that is there and of a new one")
	}
	moved := *c
	moved.ID = b
	s.chats[b] = &moved
	if s.config.Faults.Moved == nil {
		s.config.Faults.Moved = map[int64]int64{}
	}
	s.config.Faults.Moved[a] = b
	return nil
}
