package chat

// Text returns the text of the chat template that LoadAdapted reads, and of the one for conversations with tools, if
// there is one. The error wraps ErrNoTemplate if there is none.
func Text(dir, adapter string) (main, tools string, err error) {
	if adapter != "" {
		if _, err := LoadAdapted(dir, adapter); err != nil {
			return "", "", err
		}
		if config, err := readObject(adapter, configFile); err == nil {
			if found, err := readTexts(adapter, config); err == nil {
				return found.main, found.toolUse, nil
			}
		}
	}
	config, err := readObject(dir, configFile)
	if err != nil {
		return "", "", err
	}
	found, err := readTexts(dir, config)
	return found.main, found.toolUse, err
}
