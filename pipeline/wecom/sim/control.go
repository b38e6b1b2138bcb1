package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// control is the API by which tests and people drive the simulator.
func (s *Server) control() {
	s.mux.HandleFunc("POST /control/message", s.controlMessage)
	s.mux.HandleFunc("POST /control/event", s.controlEvent)
	s.mux.HandleFunc("POST /control/fault", func(w http.ResponseWriter, r *http.Request) {
		var in map[string]json.Number
		if !read(w, r, &in) {
			return
		}
		for name, value := range in {
			if err := s.Fault(name, value.String()); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
		}
		write(w, answer{"ok": true})
	})
	s.mux.HandleFunc("POST /control/clock", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Advance string `json:"advance"`
		}
		if !read(w, r, &in) {
			return
		}
		d, err := time.ParseDuration(in.Advance)
		if err != nil {
			http.Error(w, `advance is a duration such as "72h"`, http.StatusBadRequest)
			return
		}
		s.Advance(d)
		write(w, answer{"ok": true})
	})
	s.mux.HandleFunc("POST /control/token", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		clear(s.access)
		s.mu.Unlock()
		write(w, answer{"ok": true})
	})
	s.mux.HandleFunc("POST /control/callback", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			URL string `json:"url"`
		}
		if read(w, r, &in) {
			s.SetCallback(in.URL)
			write(w, answer{"ok": true})
		}
	})
	s.mux.HandleFunc("POST /control/check", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.Check(); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		write(w, answer{"ok": true})
	})
	s.mux.HandleFunc("GET /truth", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		said := map[string]int{}
		for id, a := range s.accounts {
			said[id] = len(a.items)
		}
		s.mu.Unlock()
		write(w, answer{"said": said, "sent": s.Sent(), "answers": s.Counts()})
	})
}

func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
	d.UseNumber() // items are sent on as they came
	if err := d.Decode(into); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return false
	}
	return true
}

// controlMessage has users write: {"user":"wm1","text":"hi","open_kfid":"wk…","users":1,"count":1}.
func (s *Server) controlMessage(w http.ResponseWriter, r *http.Request) {
	in := struct {
		User, Text string
		Account    string `json:"open_kfid"`
		Users      int
		Count      int
	}{User: "wm-user", Text: "hello", Account: s.config.Accounts[0], Users: 1, Count: 1}
	if !read(w, r, &in) {
		return
	}
	var ids []string
	for n := range in.Count {
		for u := range in.Users {
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
	write(w, answer{"msgids": ids})
}

// controlEvent adds any item to an account: its members are those of an element of msg_list. One of the type
// enter_session gets a welcome code.
func (s *Server) controlEvent(w http.ResponseWriter, r *http.Request) {
	var in map[string]any
	if !read(w, r, &in) {
		return
	}
	s.mu.Lock()
	id := s.config.Accounts[0]
	event, _ := in["event"].(map[string]any)
	if v := text(in["open_kfid"]); v != "" {
		id = v
	} else if v := text(event["open_kfid"]); v != "" {
		id = v
	}
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
	write(w, answer{"msgid": in["msgid"]})
}
