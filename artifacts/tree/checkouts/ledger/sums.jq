flatten | group_by(.account)[] | "\(.[0].account) \(map(.amount) | add)"
