package cli

import "github.com/spf13/cobra"

func (s *session) messages() *cobra.Command {
	return noun("messages", "Messages: list, show", `Looks at messages. None is taken or changed by it.`,
		s.messagesLs(), s.messagesShow())
}
