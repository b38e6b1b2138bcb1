package llm

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// anthropicTokens is how long an answer may be; that format wants a number.
const anthropicTokens = 32_000

type turn struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// encode returns where a request goes and what it says.
func (p *Provider) encode(model, prompt, text string) (path string, body []byte) {
	type request struct {
		Model     string `json:"model"`
		System    string `json:"system,omitempty"`
		MaxTokens int    `json:"max_tokens,omitempty"`
		Messages  []turn `json:"messages"`
	}
	q := request{Model: model, Messages: []turn{{"user", text}}}
	path = "/chat/completions"
	if p.Type == Anthropic {
		path, q.System, q.MaxTokens = "/messages", prompt, anthropicTokens
	} else {
		q.Messages = append([]turn{{"system", prompt}}, q.Messages...)
	}
	body, _ = json.Marshal(q) // strings and numbers
	return path, body
}

// response has the members of both formats.
type response struct {
	Choices []struct {
		Message struct{ Content string }
		Finish  string `json:"finish_reason"`
	}
	Content []struct{ Type, Text string }
	Stop    string `json:"stop_reason"`
	Usage   struct {
		Prompt        int64 `json:"prompt_tokens"`
		Completion    int64 `json:"completion_tokens"`
		Input         int64 `json:"input_tokens"`
		Output        int64 `json:"output_tokens"`
		CacheRead     int64 `json:"cache_read_input_tokens"`
		CacheCreation int64 `json:"cache_creation_input_tokens"`
	}
}

// decode reads an answer. One that was cut at its length is a failure that has its price.
func (p *Provider) decode(data []byte) (Answer, error) {
	var r response
	if err := json.Unmarshal(data, &r); err != nil {
		return Answer{}, pawl.OfKind(KindAnswer, fmt.Errorf("the answer is not JSON: %w", err))
	}
	a := Answer{Usage: Usage{
		Input:  r.Usage.Prompt + r.Usage.Input + r.Usage.CacheRead + r.Usage.CacheCreation,
		Output: r.Usage.Completion + r.Usage.Output,
	}}
	finish := r.Stop
	for _, c := range r.Content {
		a.Text += c.Text
	}
	if len(r.Choices) > 0 {
		a.Text, finish = r.Choices[0].Message.Content, r.Choices[0].Finish
	}
	switch {
	case finish == "length" || finish == "max_tokens":
		return a, pawl.OfKind(KindAnswer, errors.New("the answer was cut at its greatest length"))
	case finish == "content_filter" || finish == "refusal":
		return a, pawl.Permanent(pawl.OfKind(KindAnswer, errors.New("the provider refused to answer")))
	case a.Text == "":
		return a, pawl.OfKind(KindAnswer, errors.New("the answer is empty"))
	}
	return a, nil
}
