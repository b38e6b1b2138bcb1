package forward

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// The parts of the Bot API's objects that are used here.

type user struct {
	ID           int64  `json:"id"`
	Username     string `json:"username"`
	LanguageCode string `json:"language_code"`
	// Of getMe only: whether it sees all messages of a group, not only commands.
	ReadsAll bool `json:"can_read_all_group_messages"`
}

type chat struct {
	ID        int64  `json:"id"`
	Type      string `json:"type"`
	Title     string `json:"title"`
	Username  string `json:"username"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
}

// name is how people call the chat.
func (c *chat) name() string {
	switch {
	case c.Title != "":
		return c.Title
	case c.FirstName != "" || c.LastName != "":
		return strings.TrimSpace(c.FirstName + " " + c.LastName)
	}
	return c.Username
}

func (c *chat) private() bool { return c.Type == "private" }

type message struct {
	ID           int64           `json:"message_id"`
	Thread       int64           `json:"message_thread_id"`
	IsTopic      bool            `json:"is_topic_message"`
	From         *user           `json:"from"`
	SenderChat   *chat           `json:"sender_chat"`
	Chat         chat            `json:"chat"`
	MediaGroup   string          `json:"media_group_id"`
	Text         string          `json:"text"`
	Entities     json.RawMessage `json:"entities"`
	Caption      string          `json:"caption"`
	CaptionSpans json.RawMessage `json:"caption_entities"`
	Photo        json.RawMessage `json:"photo"`
	Video        json.RawMessage `json:"video"`
	Animation    json.RawMessage `json:"animation"`
	Document     json.RawMessage `json:"document"`
	Audio        json.RawMessage `json:"audio"`
	Voice        json.RawMessage `json:"voice"`
	Sticker      json.RawMessage `json:"sticker"`
	MigrateTo    int64           `json:"migrate_to_chat_id"`
	MigrateFrom  int64           `json:"migrate_from_chat_id"`

	serviceMembers
}

// serviceMembers are what Telegram itself says in a chat: somebody joined, the title changed. It can be neither
// forwarded nor copied.
type serviceMembers struct {
	NewMembers   *json.RawMessage `json:"new_chat_members"`
	LeftMember   *json.RawMessage `json:"left_chat_member"`
	NewTitle     *json.RawMessage `json:"new_chat_title"`
	NewPhoto     *json.RawMessage `json:"new_chat_photo"`
	PhotoDeleted *json.RawMessage `json:"delete_chat_photo"`
	GroupMade    *json.RawMessage `json:"group_chat_created"`
	SuperMade    *json.RawMessage `json:"supergroup_chat_created"`
	ChannelMade  *json.RawMessage `json:"channel_chat_created"`
	Pinned       *json.RawMessage `json:"pinned_message"`
	TopicMade    *json.RawMessage `json:"forum_topic_created"`
	TopicEdited  *json.RawMessage `json:"forum_topic_edited"`
	TopicClosed  *json.RawMessage `json:"forum_topic_closed"`
	TopicOpened  *json.RawMessage `json:"forum_topic_reopened"`
	Boost        *json.RawMessage `json:"boost_added"`
	TimerChanged *json.RawMessage `json:"message_auto_delete_timer_changed"`
	VideoStarted *json.RawMessage `json:"video_chat_started"`
	VideoEnded   *json.RawMessage `json:"video_chat_ended"`
}

// service tells messages of Telegram about the chat.
func (m *message) service() bool {
	return m.MigrateTo != 0 || m.MigrateFrom != 0 || m.serviceMembers != (serviceMembers{})
}

// words are the text, or what is written below a picture.
func (m *message) words() string {
	if m.Text != "" {
		return m.Text
	}
	return m.Caption
}

// media is the kind of a message, in the words of --filter.
func (m *message) media() string {
	switch {
	case m.Photo != nil:
		return "photo"
	case m.Video != nil:
		return "video"
	case m.Animation != nil, m.Document != nil:
		return "document"
	case m.Audio != nil:
		return "audio"
	case m.Voice != nil:
		return "voice"
	case m.Sticker != nil:
		return "sticker"
	}
	return "none"
}

// topic is the forum topic of a message; 0 outside of one. In a chat without topics the number names a thread
// of replies.
func (m *message) topic() int64 {
	if m.IsTopic {
		return m.Thread
	}
	return 0
}

type member struct {
	Status string `json:"status"`
}

func (m *member) admin() bool { return m.Status == "creator" || m.Status == "administrator" }

type update struct {
	ID         int64    `json:"update_id"`
	Message    *message `json:"message"`
	Edited     *message `json:"edited_message"`
	Post       *message `json:"channel_post"`
	EditedPost *message `json:"edited_channel_post"`
}

// what returns the message that an update is about, and whether it is an edit of one. It may be nil.
func (u *update) what() (m *message, edited bool) {
	switch {
	case u.Message != nil:
		return u.Message, false
	case u.Post != nil:
		return u.Post, false
	case u.Edited != nil:
		return u.Edited, true
	}
	return u.EditedPost, u.EditedPost != nil
}

// wanted are the updates that are asked for. The set is stated in full, because Telegram keeps what was stated before.
func wanted() []string {
	return []string{"message", "edited_message", "channel_post", "edited_channel_post", "my_chat_member", "chat_member"}
}

// updates waits for updates from offset on. They are raw, so that they are stored as they came.
func (c *client) updates(ctx context.Context, offset int64, wait time.Duration) (all []json.RawMessage, err error) {
	err = c.call(ctx, wait+15*time.Second, "getUpdates", map[string]any{
		"offset": offset, "limit": 100, "timeout": int(wait.Seconds()), "allowed_updates": wanted(),
	}, &all)
	return all, err
}

// ask calls a method and returns its result.
func ask[T any](ctx context.Context, c *client, method string, params any) (T, error) {
	var result T
	err := c.call(ctx, callTimeout, method, params, &result)
	return result, err
}

func (c *client) me(ctx context.Context) (user, error) { return ask[user](ctx, c, "getMe", struct{}{}) }

func (c *client) chat(ctx context.Context, id int64) (chat, error) {
	return ask[chat](ctx, c, "getChat", map[string]any{"chat_id": id})
}

func (c *client) member(ctx context.Context, chat, user int64) (member, error) {
	return ask[member](ctx, c, "getChatMember", map[string]any{"chat_id": chat, "user_id": user})
}
