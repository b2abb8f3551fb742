"""What applications tell of their requests: by DogStatsD, by MQTT."""
