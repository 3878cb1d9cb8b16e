# Functions on encoders and fine-tuned families, shared by all stages: what each is made of, its options and its code.

ENCODER_FILES = [
    "config.json",
    "model.safetensors",
    "heads.safetensors",
    "pretrieve.json",
]
RETRIEVER_FILES = ["model.safetensors", "heads.safetensors", "pretrieve.json"]
STORE_FILES = ["corpus.json", "queries.json"]


#: Vectors are made again when this changes, and not for an edit of what searches or scores them.
VECTOR_CODE = stage_code("pretrieve.retrieval.embed_task")


def of_sizes(kind, dataset, sizes, *names):
    """Paths below ``results/{scale}/KIND`` of ``{family}`` and ``{seed}``, size by size: files in a folder, files of their own
    (a name that begins with a dot), or without ``names`` the folders."""
    folders = [
        f"{ROOT}/{kind}/{{family}}-{size}/{dataset}/seed{{seed}}" for size in sizes
    ]
    return [
        folder + name if name.startswith(".") else os.path.join(folder, name)
        for folder in folders
        for name in names
    ] or folders


def pretraining_code(encoder):
    """The code that trains an encoder: of the objectives, its own only."""
    objective = encoder_options(config, encoder)["objective"]
    return stage_code("pretrain.py", *objectives.modules_of(objective))


def store_of(encoder):
    """The token store that an encoder is pre-trained on."""
    return f"{paths.corpus_dir(ROOT, corpus_of(config, encoder))}/tokens"


def outside(encoder):
    """The start of an encoder that is hub:OWNER/NAME or dir:PATH, or None."""
    start = config["encoders"][encoder].get("start")
    return start if start is not None and from_outside(start) else None


def store_files(encoder):
    """What stands for the same, complete."""
    return f"{store_of(encoder)}/meta.json"


def start_of(encoder, seed):
    """Files of what an encoder goes on from; none for a fresh one."""
    if outside(encoder):
        return hub.files_of(outside(encoder))
    start = started_from(config, encoder)
    if start is None:
        return []
    directory = paths.encoder_dir(ROOT, start, seed)
    return [f"{directory}/{name}" for name in ENCODER_FILES]


def start_argument(encoder, seed):
    """The option of pretrain.py that names the directory of an encoder's start; nothing for a fresh one."""
    own = started_from(config, encoder)
    if outside(encoder) is None and own is None:
        return ""
    directory = (
        hub.place_of(outside(encoder))
        if outside(encoder)
        else paths.encoder_dir(ROOT, own, seed)
    )
    return f"--start {shlex.quote(directory)}"


def encoder_of(wildcards):
    """Directory of the encoder of ``{family}``, an encoder and a recipe."""
    return paths.encoder_dir(ROOT, wildcards.family.split(".")[0], wildcards.seed)


def encoder_weights(wildcards):
    """The weights of the same."""
    return f"{encoder_of(wildcards)}/model.safetensors"


def watched_sizes(task, wildcards):
    """The training-set sizes of ``{family}`` that a figure shows steps of."""
    return sorted(PLAN.watched_sizes.get((wildcards.family, task), ()))


def options_of(task, wildcards):
    """Options of the recipe of ``{family}`` on a task; ``curve`` only where a figure shows it."""
    options = recipe_options(config, wildcards.family.split(".")[1], task)
    if options.get("curve") and not watched_sizes(task, wildcards):
        options["curve"] = 0
    return options


def family_options(task, wildcards):
    """Options of the recipe of ``{family}`` on a task, as an argument."""
    return as_argument(options_of(task, wildcards))


def finetuning_code(task, wildcards):
    """The code that trains ``{family}`` on a task: of the trainers, its own only."""
    return stage_code("finetune.py", *trainers.modules_of(options_of(task, wildcards)))


def length_arguments(family, dataset):
    """Tokens of a query and of a document of a family, as options."""
    options = recipe_options(config, family.split(".")[1], dataset)
    return f"--query-length {options['query_length']} --passage-length {options['passage_length']}"


def made_of_files(task, sizes, wildcards):
    """What the retrievers of ``{family}`` are made of beside their encoder."""
    files = [
        file
        for size in sizes
        for file in PLAN.made_of_files(wildcards.family, task, size, wildcards.seed)
    ]
    return list(dict.fromkeys(files))


def made_of_argument(task, sizes, wildcards):
    """The same by training-set size, as finetune.py takes it."""
    made_of = {
        size: PLAN.made_of(wildcards.family, task, size, wildcards.seed)
        for size in sizes
    }
    return as_argument(made_of)
