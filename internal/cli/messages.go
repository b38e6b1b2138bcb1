package cli

import "github.com/spf13/cobra"

func (s *session) messages() *cobra.Command {
	return noun("messages", "Messages: list, show", `Shows messages. It neither takes nor changes any.`,
		s.messagesLs(), s.messagesShow())
}
