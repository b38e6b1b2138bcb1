package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// control is the API by which tests and people drive the simulator.
func (s *Server) control() {
	post := func(what string, do http.HandlerFunc) { s.mux.HandleFunc("POST /control/"+what, do) }
	post("message", pipeline.Control(s.controlMessage))
	post("event", pipeline.Control(s.controlEvent))
	post("fault", pipeline.ControlFaults(s.Fault))
	post("clock", pipeline.Control(func(in struct{ Advance string }) (any, error) {
		d, err := time.ParseDuration(in.Advance)
		if err != nil {
			return nil, fmt.Errorf(`advance is a duration such as "72h": %w`, err)
		}
		s.Advance(d)
		return nil, nil
	}))
	post("token", pipeline.Control(func(struct{}) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.access)
		return nil, nil
	}))
	post("callback", pipeline.Control(func(in struct{ URL string }) (any, error) {
		s.SetCallback(in.URL)
		return nil, nil
	}))
	post("check", pipeline.Control(func(struct{}) (any, error) { return nil, s.Check() }))
	s.mux.HandleFunc("GET /truth", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		said := map[string]int{}
		for id, items := range s.accounts {
			said[id] = len(items)
		}
		s.mu.Unlock()
		write(w, answer{"said": said, "sent": s.Sent(), "answers": s.Counts()})
	})
}

// said is what users write: {"user":"wm1","text":"hi","open_kfid":"wk…","users":1,"count":1}.
type said struct {
	User, Text   string
	Account      string `json:"open_kfid"`
	Users, Count int
}

func (s *Server) controlMessage(in said) (any, error) {
	in.User, in.Text = cmp.Or(in.User, "wm-user"), cmp.Or(in.Text, "hello")
	in.Account = cmp.Or(in.Account, s.config.Accounts[0])
	var ids []string
	for n := range max(in.Count, 1) {
		for u := range max(in.Users, 1) {
			name, words := in.User, in.Text
			if in.Users > 1 {
				name = fmt.Sprintf("%s%d", name, u+1)
			}
			if in.Count > 1 {
				words = fmt.Sprintf("%s %d", words, n+1)
			}
			ids = append(ids, s.Say(in.Account, name, words))
		}
	}
	return answer{"msgids": ids}, nil
}

// controlEvent adds any item to an account: its members are those of an element of msg_list. One of the type
// enter_session gets a welcome code.
func (s *Server) controlEvent(in map[string]any) (any, error) {
	s.mu.Lock()
	event, _ := in["event"].(map[string]any)
	id := cmp.Or(text(in["open_kfid"]), text(event["open_kfid"]), s.config.Accounts[0])
	if text(in["msgid"]) == "" {
		in["msgid"] = s.id("ev")
	}
	if text(event["event_type"]) == "enter_session" && text(event["welcome_code"]) == "" {
		event["welcome_code"] = s.id("code")
		s.codes[text(event["welcome_code"])] = s.now().Add(welcomeLife)
	}
	if text, is := in["origin"].(json.Number); is {
		if n, err := strconv.Atoi(text.String()); err == nil {
			in["origin"] = n
		}
	}
	s.add(id, text(in["external_userid"]), in)
	s.mu.Unlock()
	s.Ring(id)
	return answer{"msgid": in["msgid"]}, nil
}
