package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// Post is a message that a user writes in a chat.
type Post struct {
	Chat     int64  `json:"chat"`
	From     int64  `json:"from"` // a user; 0: the chat itself, as in a channel
	Text     string `json:"text"`
	Language string `json:"language"`
	Thread   int64  `json:"thread"`
	Album    string `json:"album"` // media_group_id
	Photo    bool   `json:"photo"`
	Edit     int64  `json:"edit"`  // the message that is edited, instead of a new one
	Count    int    `json:"count"` // of messages, which are numbered then
	As       string `json:"as"`    // what the update is called: message (the default), channel_post …
	// Extra are members of the message, such as migrate_to_chat_id.
	Extra map[string]any `json:"extra"`
}

// routes are what people do: POST /control/message, /control/member, /control/fault, /control/chat.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /control/message", pipeline.Control(func(p Post) (any, error) {
		return map[string]any{"message_ids": s.Write(p)}, nil
	}))
	mux.HandleFunc("POST /control/member", pipeline.Control(func(m struct {
		Chat, User int64
		Status     string
	}) (any, error) {
		s.SetMember(m.Chat, m.User, m.Status)
		return nil, nil
	}))
	mux.HandleFunc("POST /control/chat", pipeline.Control(func(c Chat) (any, error) {
		s.AddChat(c)
		return nil, nil
	}))
	mux.HandleFunc("POST /control/fault", pipeline.ControlFaults(s.Fault))
	mux.HandleFunc("GET /truth", func(w http.ResponseWriter, r *http.Request) {
		write(w, http.StatusOK, s.Truth(r.URL.Query().Get("messages") != ""))
	})
	return mux
}

// AddChat adds a chat, or replaces one.
func (s *Server) AddChat(c Chat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.messages = map[int64]json.RawMessage{}
	s.chats[c.ID] = &c
}

// SetMember changes the status of a user in a chat: administrator, member, left …
func (s *Server) SetMember(chat, user int64, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[[2]int64{chat, user}] = status
}

// Write writes messages in a chat, of which the bot gets updates, and returns their numbers.
func (s *Server) Write(p Post) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chats[p.Chat]
	if c == nil {
		return nil
	}
	as := p.As
	switch {
	case as == "" && p.Edit != 0:
		as = "edited_message"
	case as == "":
		as = "message"
	}
	var ids []int64
	for i := range max(p.Count, 1) {
		id := p.Edit
		if id == 0 {
			c.last++
			id = c.last
		}
		m := p.message(c, id, i+1)
		c.messages[id], _ = json.Marshal(m)
		s.add(map[string]any{as: m})
		ids = append(ids, id)
	}
	return ids
}

// message is the n-th message of a post.
func (p *Post) message(c *Chat, id int64, n int) map[string]any {
	m := map[string]any{"message_id": id, "date": time.Now().Unix(), "chat": *c}
	maps.Copy(m, p.Extra)
	text, field := p.Text, "text"
	if p.Count > 1 {
		text = fmt.Sprintf("%s %d", p.Text, n)
	}
	if p.Photo || p.Album != "" {
		m["photo"], field = []any{map[string]any{"file_id": "f"}}, "caption"
	}
	if text != "" {
		m[field] = text
	}
	if p.From != 0 {
		m["from"] = map[string]any{"id": p.From, "is_bot": false, "first_name": "U", "language_code": p.Language}
	}
	if p.Album != "" {
		m["media_group_id"] = p.Album
	}
	if p.Thread != 0 {
		m["message_thread_id"], m["is_topic_message"] = p.Thread, true
	}
	return m
}

// add adds an update. The caller holds mu.
func (s *Server) add(u map[string]any) {
	s.nextID++
	u["update_id"] = s.nextID
	b, _ := json.Marshal(u)
	s.updates, s.ids = append(s.updates, b), append(s.ids, s.nextID)
	s.truth.Updates++
	close(s.wake)
	s.wake = make(chan struct{})
	s.pushAll()
}

// confirm forgets updates below offset. The caller holds mu.
func (s *Server) confirm(offset int64) {
	for len(s.ids) > 0 && s.ids[0] < offset {
		s.ids, s.updates = s.ids[1:], s.updates[1:]
		s.truth.Confirmed++
	}
}

func (s *Server) getUpdates(w http.ResponseWriter, r *http.Request, p map[string]any) {
	mine, no := s.takePoll(number(p["offset"]))
	if no != nil {
		reply(w, nil, no)
		return
	}
	defer s.leavePoll(mine)
	limit := int(number(p["limit"]))
	if limit <= 0 || limit > 100 {
		limit = 100
	}
	timeout := time.NewTimer(time.Duration(min(max(number(p["timeout"]), 0), 50)) * time.Second)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		some := append([]json.RawMessage{}, s.updates[:min(len(s.updates), limit)]...)
		wake := s.wake
		s.mu.Unlock()
		if len(some) > 0 {
			reply(w, some, nil)
			return
		}
		select {
		case <-wake:
		case <-mine:
			reply(w, nil,
				refuse(409,
					"Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"))
			return
		case <-timeout.C:
			reply(w, some, nil)
			return
		case <-r.Context().Done():
			return
		}
	}
}

// takePoll makes a call the one that gets updates; one before it is told so.
func (s *Server) takePoll(offset int64) (mine chan struct{}, no *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.truth.Calls["getUpdates"]++
	switch {
	case s.config.Faults.Revoked:
		return nil, refuse(401, "Unauthorized")
	case s.webhook != "":
		return nil,
			refuse(409,
				"Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	if s.poll != nil {
		close(s.poll)
	}
	s.poll = make(chan struct{})
	s.confirm(offset)
	return s.poll, nil
}

func (s *Server) leavePoll(mine chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.poll == mine {
		s.poll = nil
	}
}
