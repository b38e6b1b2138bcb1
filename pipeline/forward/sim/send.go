package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// send puts messages into a chat.
func (s *Server) send(method string, p map[string]any) (any, *answer) {
	to := number(p["chat_id"])
	if moved, ok := s.config.Faults.Moved[to]; ok {
		no := refuse(400, "Bad Request: group chat was upgraded to a supergroup chat")
		no.parameters = map[string]any{"migrate_to_chat_id": moved}
		return nil, no
	}
	if s.config.Faults.Blocked[to] {
		return nil, refuse(403, "Forbidden: bot was blocked by the user")
	}
	c, no := s.chat(to)
	if no != nil {
		return nil, no
	}
	ids := []int64{number(p["message_id"])}
	many, album := p["message_ids"].([]any)
	group := ""
	if album {
		ids, group = nil, fmt.Sprintf("g%d", len(s.sent)+1)
		for _, id := range many {
			ids = append(ids, number(id))
		}
	}
	if no := s.limit(to, len(ids)); no != nil {
		return nil, no
	}
	if s.chance(s.config.Faults.Throttle) {
		return nil, tooMany(time.Second)
	}
	from := number(p["from_chat_id"])
	made := []map[string]any{}
	for _, id := range ids {
		text, ok := s.original(p, from, id)
		if !ok && !album {
			return nil, refuse(400, "Bad Request: message to copy not found")
		}
		if !ok {
			continue // as Telegram has it: of many, what is missing is skipped
		}
		c.last++
		m := Sent{
			At: time.Now(), Method: method, Chat: to, ID: c.last, Thread: number(p["message_thread_id"]),
			From: from, Original: id, Text: text, Group: group,
		}
		s.sent = append(s.sent, m)
		s.arrivals.add(m.At, to)
		made = append(made, map[string]any{"message_id": c.last, "chat": *c, "date": m.At.Unix(), "text": text})
	}
	if album {
		return made, nil
	}
	return made[0], nil
}

// original is the text of a message that is forwarded, copied or sent again.
func (s *Server) original(p map[string]any, from, id int64) (text string, ok bool) {
	if from == 0 {
		text, _ = p["text"].(string)
		return text, true
	}
	source := s.chats[from]
	if source == nil || source.messages[id] == nil {
		return "", false
	}
	var m struct{ Text, Caption string }
	_ = json.Unmarshal(source.messages[id], &m)
	if caption, ok := p["caption"].(string); ok {
		return caption, true
	}
	return m.Text + m.Caption, true
}

func (s *Server) edit(p map[string]any) (any, *answer) {
	to, id := number(p["chat_id"]), number(p["message_id"])
	at := slices.IndexFunc(s.sent, func(m Sent) bool { return m.Chat == to && m.ID == id })
	if at < 0 {
		return nil, refuse(400, "Bad Request: message to edit not found")
	}
	text, ok := p["text"].(string)
	if !ok {
		text, _ = p["caption"].(string)
	}
	if s.sent[at].Text == text {
		return nil, refuse(400, "Bad Request: message is not modified")
	}
	s.sent[at].Text = text
	s.truth.Edited++
	return true, nil
}
